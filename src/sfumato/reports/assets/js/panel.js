import { drawSeries } from "./chart.js";
import { byId, canvasById, make } from "./dom.js";
import { countText, estimateText } from "./estimate.js";
import { fill } from "./format.js";
import { cityLike, typical } from "./model.js";

/**
 * @typedef {import("./model.js").Release} Release
 */

/** The chosen zone's series with its interval; the whole city where none is chosen. */
export class Panel {
  /**
   * @param {import("./format.js").Words} words
   * @param {(slot: number) => void} pickSlot
   */
  constructor(words, pickSlot) {
    this.words = words;
    this.canvas = canvasById("series");
    /** @type {import("./chart.js").Frame | null} */
    this.frame = null;
    this.slots = 1;
    this.canvas.addEventListener("click", (e) => {
      if (!this.frame) return;
      const x = e.clientX - this.canvas.getBoundingClientRect().left;
      const slot = Math.floor(((x - this.frame.left) / this.frame.width) * this.slots);
      if (slot >= 0 && slot < this.slots) pickSlot(slot);
    });
  }

  /**
   * @param {Release} release
   * @param {Release[]} all
   * @param {number} zone
   */
  choose(release, all, zone) {
    this.release = release;
    this.zone = zone;
    this.slots = release.slots;
    const words = this.words.panel;
    byId("zone-name").textContent = zone < 0 ? words.city_title : release.map.names[zone];
    const district = zone < 0 ? "" : release.map.districts[zone];
    const id = zone < 0 || release.map.ids[zone] === release.map.names[zone] ? "" : fill(words.id, { id: release.map.ids[zone] });
    const area = zone >= 0 && release.outlines?.km2[zone] ? fill(words.area, { km2: release.figures.about(release.outlines.km2[zone]) }) : "";
    byId("zone-more").textContent = [id, district, area].filter(Boolean).join(" · ");
    byId("zone-clear").hidden = zone < 0 || release.zones === 1;
    byId("zone-hint").hidden = zone >= 0;
    const usual = zone < 0 ? null : typical(release, all, zone);
    this.usual = usual?.values ?? null;
    this.city = zone < 0 ? null : cityLike(release, zone);
    const keys = [{ kind: "zone", text: zone < 0 ? words.key_total : words.key_zone }];
    const band = release.facts.coverage ? fill(words.key_band, { percent: release.facts.coverage }) : words.key_band_plain;
    if (zone < 0 && release.cityEnds) keys.push({ kind: "band", text: band });
    if (zone >= 0) {
      if (release.intervals) keys.push({ kind: "band", text: band });
      keys.push({ kind: "usual", text: usual?.by === "weekday" ? words.key_weekday : words.key_kind });
      keys.push({ kind: "city", text: words.key_city });
    }
    byId("series-key").replaceChildren(
      ...keys.map((k) => make("li", {}, make("span", { class: `key ${k.kind}`, "aria-hidden": "true" }), k.text)),
    );
  }

  /**
   * @param {number} slot
   * @param {number} second the hour compared with, or -1
   * @param {import("./mapdraw.js").Inks} inks
   * @param {string[]} tones zone, band, usual, city
   */
  draw(slot, second, inks, tones) {
    const { release, zone } = this;
    if (!release || zone === undefined) return;
    const { figures, clock } = release;
    const words = this.words.panel;
    const value = byId("zone-value");
    const ends = release.cityEnds;
    if (zone < 0) {
      const unit = ` ${this.words.counting_unit[release.facts.counting] ?? this.words.counting_unit.visits}`;
      const stated = ends && Number.isFinite(ends[0][slot]);
      const text = estimateText({ value: release.city[slot], lower: ends?.[0][slot] ?? NaN, upper: ends?.[1][slot] ?? NaN }, this.words);
      const [sum, ...sure] = text.split(" ");
      const pm = make("span", { class: "pm" }, stated ? ` ${sure.join(" ")}` : "");
      value.replaceChildren(make("strong", {}, sum), pm, unit, make("small", {}, stated ? "" : ` ${words.no_total_interval}`));
    } else {
      const cell = release.cell(zone, slot);
      const [number, ...sure] = Number.isFinite(cell.count) ? countText(figures, cell).split(" ") : [figures.count(cell.count)];
      value.replaceChildren(
        make("strong", {}, number),
        make("span", { class: "pm" }, ` ${sure.join(" ")}`),
        make("small", {}, ` ${this.words.counting_unit[release.facts.counting] ?? this.words.counting_unit.visits}, ${clock.short(slot)}${release.facts.epsilon ? ` · ε ${release.facts.epsilon}` : ""}`),
      );
    }
    const lines = [];
    if (zone >= 0 && this.city && this.usual) {
      lines.push({ values: this.city, colour: tones[3], width: 1.25, dash: [2, 3] });
      lines.push({ values: this.usual, colour: tones[2], width: 1.25, dash: [6, 3] });
    }
    lines.push({ values: zone < 0 ? release.city : release.row(zone, "count"), colour: tones[0], width: 2, dash: [] });
    this.frame = drawSeries(this.canvas, {
      lines,
      band: zone < 0 ? (ends ? { lower: ends[0], upper: ends[1], colour: tones[1] } : null) : !release.intervals ? null : { lower: release.row(zone, "lower"), upper: release.row(zone, "upper"), colour: tones[1] },
      days: clock.days.map((k) => ({ slot: k, name: clock.shortDay(k) })),
      slots: release.slots,
      mark: slot,
      second,
      format: (v) => figures.about(v),
      inks,
    });
    this.canvas.setAttribute("aria-label", fill(words.aria, { name: zone < 0 ? words.city_title : release.title(zone), period: clock.period() }));
  }
}
