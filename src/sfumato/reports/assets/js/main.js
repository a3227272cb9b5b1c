import { byId, canvasById, inputById, isDark, make, readInks, showTip } from "./dom.js";
import { blend, FADE } from "./colours.js";
import { csv, fileName, geojson, save } from "./download.js";
import { changeText, countText, estimateText } from "./estimate.js";
import { drawFacts } from "./facts.js";
import { fill, numberOf } from "./format.js";
import { drawLegend } from "./legend.js";
import { readLink, writeLink } from "./link.js";
import { drawRanking, drawTable } from "./lists.js";
import { MapView } from "./mapview.js";
import { loadReleases } from "./model.js";
import { Panel } from "./panel.js";
import { changeBreaks, changeScene, coloursFor, doubtful, stripOrder, valueScene } from "./scene.js";
import { Search } from "./search.js";
import { drawLasso, Selection } from "./selection.js";
import { HeatStrip } from "./strip.js";
import { Player, wireKeys, wirePrint, wireTheme } from "./controls.js";

/** @typedef {import("./model.js").Release} Release */

/** The public page: one state, and everything that is drawn from it. */
class Page {
  /**
   * @param {import("./format.js").Words} words
   * @param {Release[]} releases
   * @param {Record<string, number[]>} bounds between classes, by measure
   */
  constructor(words, releases, bounds) {
    this.words = words;
    this.bounds = bounds;
    this.releases = releases;
    this.release = releases[0];
    this.slot = 0;
    this.chosen = -1;
    this.pinned = -1;
    /** @type {import("./model.js").Measure} */
    this.measure = "count";
    this.inks = readInks();
    this.legend = "";
    this.map = new MapView(byId("map"), {
      hover: (zone, x, y) => this.hover(zone, x, y),
      moved: () => this.link(),
      pick: (zone) => (this.selection.mode === "look" ? this.choose(zone === this.chosen ? -1 : zone) : this.selection.toggle(zone)),
      draws: () => this.selection.draws(),
      drawn: (path, map) => this.selection.drawn(path, map),
      over: (ctx) => this.map.path.length > 1 && drawLasso(ctx, this.selection.corners(this.map.path), this.inks),
    });
    this.selection = new Selection(words, { changed: () => this.selected(), slot: () => this.slot });
    this.strip = new HeatStrip(canvasById("heat"), {
      hover: (zone, slot, x, y) => this.tip(byId("heat-tip"), byId("heat-frame"), zone, slot, x, y),
      pick: (zone, slot) => {
        this.choose(zone);
        this.go(slot);
      },
    });
    this.panel = new Panel(words, (slot) => this.go(slot));
    this.search = new Search(words, () => this.release, (zone) => {
      this.choose(zone);
      this.map.reveal(zone);
    });
    this.player = new Player(() => this.go((this.slot + 1) % this.release.slots), (on) => this.playing(on));
    this.pointed = { zone: -1, x: 0, y: 0 };
    this.wire();
    this.show(0);
    this.follow();
    window.addEventListener("hashchange", () => this.follow());
    this.linked = true;
  }

  wire() {
    const on = (/** @type {string} */ id, /** @type {string} */ event, /** @type {(e: Event) => void} */ act) => byId(id).addEventListener(event, act);
    on("slider", "input", () => this.go(Number(inputById("slider").value)));
    on("play", "click", () => this.player.toggle());
    on("previous", "click", () => this.go(this.slot - 1));
    on("next", "click", () => this.go(this.slot + 1));
    on("measure", "change", () => {
      this.measure = inputById("measure").value === "density" ? "density" : "count";
      this.rescale();
    });
    on("uncertain", "change", () => {
      this.compose();
      this.paint();
      this.link();
    });
    on("compare", "click", () => this.pin(this.pinned < 0 ? this.slot : -1));
    on("zone-clear", "click", () => this.choose(-1));
    on("zone-select", "click", () => this.selection.toggle(this.chosen));
    on("order", "change", () => this.compose());
    on("zoom-in", "click", () => this.map.zoomBy(1.5));
    on("zoom-out", "click", () => this.map.zoomBy(1 / 1.5));
    on("zoom-all", "click", () => this.map.reset());
    on("table-box", "toggle", () => this.table());
    on("csv-hour", "click", () => this.save("csv", [this.slot]));
    on("csv-all", "click", () => this.save("csv", this.release.clock.starts.map((_, k) => k)));
    on("geojson-hour", "click", () => this.save("geojson", [this.slot]));
    on("copy", "click", () => this.copy());
    on("week", "change", () => this.show(Number(inputById("week").value)));
    const week = byId("week");
    this.releases.forEach((r, k) => week.append(make("option", { value: k }, `${r.clock.shortDay(0)} – ${r.clock.shortDay(r.slots - 1)} ${r.clock.moments[r.slots - 1].year}${r.facts.name ? ` · ${r.facts.name}` : ""}`)));
    byId("week-box").hidden = this.releases.length < 2;
    wireTheme(this.words, () => this.repaint());
    wirePrint(() => this.repaint(), () => this.map.flatten());
    wireKeys({
      play: () => this.player.toggle(), back: () => this.go(this.slot - 1), forward: () => this.go(this.slot + 1),
      dayBack: () => this.day(-1), dayForward: () => this.day(1), search: () => byId("search").focus(),
      compare: () => this.pin(this.pinned < 0 ? this.slot : -1), select: () => this.selection.toggle(this.chosen), clear: () => this.choose(-1),
    });
    new ResizeObserver(() => this.marksOfTime()).observe(byId("heat-frame"));
    new ResizeObserver(() => this.drawPanel()).observe(byId("series-frame"));
  }

  /** @param {number} index of the release */
  show(index) {
    const before = this.release;
    this.release = this.releases[index];
    const { release, words } = this;
    this.pinned = -1;
    this.slot = before === release ? firstShown(release) : Math.min(this.slot, release.slots - 1);
    if (before.map !== release.map) this.chosen = -1;
    const options = release.hasAreas ? ["density", "count"] : ["count"];
    byId("measure").replaceChildren(...options.map((m) => make("option", { value: m }, words.measure[m])));
    this.measure = release.hasAreas ? "density" : "count";
    inputById("measure").value = this.measure;
    byId("map-box").classList.toggle("no-map", !release.outlines);
    byId("uncertain-box").hidden = !release.uncertain;
    document.body.classList.toggle("one-slot", release.slots === 1);
    if (release.outlines) this.map.setMap(release.outlines, release.map);
    const slider = inputById("slider");
    slider.max = String(release.slots - 1);
    this.dayMarks();
    drawFacts(release, words);
    this.map.ink(this.inks);
    this.selection.show(release);
    this.selected();
    this.choose(this.chosen);
    this.rescale();
  }

  /** After other zones were selected. */
  selected() {
    this.map.select(this.selection.zones);
    const button = byId("zone-select");
    button.hidden = this.chosen < 0 || this.release.zones === 1;
    button.textContent = this.selection.zones.has(this.chosen) ? this.words.sum.remove : this.words.sum.add;
  }

  dayMarks() {
    const { clock, slots } = this.release;
    byId("days").replaceChildren(...clock.days.map((k) => {
      const mark = make("button", { type: "button", tabindex: -1 }, this.words.time.weekdays_short[clock.moments[k].weekday], make("span", {}, ` ${clock.moments[k].day}`));
      mark.style.left = `${(100 * k) / slots}%`;
      mark.style.width = `${(100 * ((clock.days.find((d) => d > k) ?? slots) - k)) / slots}%`;
      mark.addEventListener("click", () => this.go(k + Math.min(this.release.clock.moments[this.slot].hour, slots - 1 - k)));
      return mark;
    }));
  }

  /** New bounds, colours and pictures: after another release, measure or theme. */
  rescale() {
    this.breaks = this.bounds[this.measure] ?? [];
    this.changes = this.pinned < 0 ? [] : changeBreaks(this.release, this.pinned, this.measure);
    this.compose();
    this.go(this.slot);
  }

  repaint() {
    this.inks = readInks();
    this.map.ink(this.inks);
    this.rescale();
  }

  compose() {
    const { release, measure } = this;
    const by = /** @type {"total" | "name" | "peak"} */ (inputById("order").value);
    const colours = coloursFor(this.breaks ?? [], false, isDark());
    this.strip.compose((z, t) => release.value(z, t, measure), stripOrder(release, by), release.slots, this.breaks ?? [], colours, this.inks.missing, {
      doubted: (z, t) => release.doubted(z, t), colours: inputById("uncertain").checked ? colours : colours.map((c) => blend(c, this.inks.sea, FADE)),
    });
    this.marksOfTime();
  }

  /** @param {number} slot */
  go(slot) {
    this.slot = Math.max(0, Math.min(this.release.slots - 1, slot));
    const { clock } = this.release;
    const slider = inputById("slider");
    slider.value = String(this.slot);
    slider.setAttribute("aria-valuetext", `${clock.day(this.slot)}, ${clock.hours(this.slot)}, ${clock.zone(this.slot)}`);
    byId("time-day").textContent = clock.day(this.slot);
    byId("time-hours").textContent = clock.hours(this.slot);
    byId("time-zone").textContent = clock.zone(this.slot);
    this.paint();
    this.marksOfTime();
    this.drawPanel();
    this.rank();
    this.table();
    this.compared();
    this.say();
    this.link();
    if (this.pointed.zone >= 0) this.hover(this.pointed.zone, this.pointed.x, this.pointed.y);
  }

  paint() {
    const { release, slot, pinned, measure, words } = this;
    const even = pinned >= 0;
    const breaks = (even ? this.changes : this.breaks) ?? [];
    const scene = even ? changeScene(release, slot, pinned, measure, breaks) : valueScene(release, slot, measure, breaks);
    const colours = coloursFor(breaks, even, isDark());
    const shown = inputById("uncertain").checked;
    this.map.paint(scene.classes, colours, release.uncertain ? scene.marked : null, even, !shown);
    const unit = (measure === "count" ? words.measure.count_unit : words.measure.density_unit)[release.facts.counting] ?? words.measure.count_unit.visits;
    const doubt = release.uncertain && scene.uncertain > 0;
    const key = `${even}|${measure}|${shown}|${doubt}|${scene.missing}|${breaks.join()}|${colours.join()}|${release.facts.id}`;
    if (key !== this.legend) {
      this.legend = key;
      drawLegend(byId("legend"), {
        title: even ? words.legend.change : words.legend.title, unit, breaks, colours, even, format: (v) => release.figures.about(v), one: words.legend.one_class,
        marked: doubt ? (even ? words.legend.marked_change : words.legend.marked) : "", faded: !shown, missing: scene.missing ? words.legend.missing : "",
      });
    }
    const zones = numberOf(words.number_of.places, release.zones, release.figures);
    const [many, none] = even ? [words.map.uncertain_changes, words.map.uncertain_no_change] : [words.map.uncertain_many, words.map.uncertain_none];
    byId("uncertain-note").textContent = !release.uncertain ? words.map.unknown : doubt ? fill(many, { n: release.figures.whole.format(scene.uncertain), zones }) : none;
    byId("map").setAttribute("aria-label", fill(words.map.aria, { day: release.clock.day(slot), hours: release.clock.hours(slot), zones }));
  }

  marksOfTime() {
    const { clock } = this.release;
    const days = clock.days.map((k) => ({ slot: k, name: clock.shortDay(k) }));
    this.strip.draw({ days, mark: this.slot, second: this.pinned, chosen: this.chosen, inks: this.inks });
  }

  drawPanel() {
    const style = getComputedStyle(document.documentElement);
    const tones = ["accent", "band", "usual", "city"].map((name) => style.getPropertyValue(`--${name}`).trim());
    this.panel.draw(this.slot, this.pinned, this.inks, tones);
  }

  rank() {
    drawRanking(this.release, this.words, this, (zone) => {
      this.choose(zone);
      this.map.reveal(zone);
    });
  }

  table() {
    if (/** @type {HTMLDetailsElement} */ (byId("table-box")).open) drawTable(this.release, this.words, this.slot, (zone) => this.choose(zone));
  }

  /** @param {number} zone */
  choose(zone) {
    this.chosen = this.release.zones === 1 ? 0 : zone; // the only one is all there is
    this.map.choose(this.chosen);
    this.selected();
    this.panel.choose(this.release, this.releases, this.chosen);
    this.drawPanel();
    this.marksOfTime();
    this.rank();
    this.compared();
    this.say();
    this.link();
  }

  /** Since when changes are shown, and what changed in what is chosen. */
  compared() {
    const { release, pinned, chosen, words } = this;
    if (pinned < 0) return void (byId("compared").textContent = "");
    const { clock } = release;
    const since = fill(words.compare.with, { time: `${clock.shortDay(pinned)}, ${clock.hours(pinned)}` });
    const change = release.change(chosen, this.slot, pinned);
    const name = chosen < 0 ? words.panel.city_title : release.map.names[chosen];
    byId("compared").textContent = `${since} · ${name}: ${changeText(change, words)}`;
  }

  /** @param {number} slot the hour to compare with, or -1 */
  pin(slot) {
    this.pinned = slot;
    const on = slot >= 0;
    const button = byId("compare");
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? this.words.compare.stop : this.words.compare.start;
    this.changes = on ? changeBreaks(this.release, slot, this.measure) : [];
    this.go(this.slot);
  }

  /** @param {number} step days forward */
  day(step) {
    const { days } = this.release.clock;
    let at = days.length - 1;
    while (at > 0 && days[at] > this.slot) at -= 1;
    const target = days[at + step];
    if (target !== undefined) this.go(target + this.slot - days[at]);
  }

  /** @param {boolean} on */
  playing(on) {
    const button = byId("play");
    button.setAttribute("aria-pressed", String(on));
    button.setAttribute("aria-label", on ? this.words.time.pause : this.words.time.play);
    button.classList.toggle("on", on);
    if (on) return;
    this.say();
    this.link();
  }

  /** The address says what is shown; not while the hours run, and not in bursts, which browsers refuse. */
  link() {
    clearTimeout(this.soon);
    if (!this.linked || this.player.on) return;
    this.soon = setTimeout(() => {
      const usual = this.release.hasAreas ? "density" : "count";
      const hash = writeLink({ ...this, usual, uncertain: inputById("uncertain").checked, look: this.map.looking() });
      try {
        history.replaceState(null, "", hash);
      } catch { /* a browser that lets no file change its address */ }
    }, 250);
  }

  /** Show what the address says. */
  follow() {
    const found = readLink(location.hash, this.releases, this.release);
    if (!Object.keys(found).length) return;
    if (found.release !== undefined && this.releases[found.release] !== this.release) this.show(found.release);
    inputById("week").value = String(this.releases.indexOf(this.release));
    if (found.measure) inputById("measure").value = this.measure = found.measure;
    if (found.uncertain) inputById("uncertain").checked = true;
    if (found.slot !== undefined) this.slot = found.slot;
    this.choose(found.zone ?? -1);
    this.pin(found.since ?? -1);
    this.rescale();
    if (found.look) this.map.lookAt(found.look);
  }

  /**
   * The box beside the pointer, which follows the clock too.
   * @param {number} zone
   * @param {number} x
   * @param {number} y
   */
  hover(zone, x, y) {
    this.pointed = { zone, x, y };
    this.tip(byId("map-tip"), byId("map"), zone, this.slot, x, y);
  }

  /**
   * @param {HTMLElement} tip
   * @param {HTMLElement} frame
   * @param {number} zone
   * @param {number} slot
   * @param {number} x
   * @param {number} y
   */
  tip(tip, frame, zone, slot, x, y) {
    if (zone < 0) return showTip(tip, frame, x, y, []);
    const { release, words } = this;
    const { figures, clock } = release;
    const cell = release.cell(zone, slot);
    const unit = words.counting_unit[release.facts.counting] ?? words.counting_unit.visits;
    const [number, ...sure] = Number.isFinite(cell.count) ? countText(figures, cell).split(" ") : [figures.count(cell.count)];
    const lines = [
      make("div", { class: "tip-name", dir: "auto" }, release.map.names[zone]),
      make("div", {}, make("strong", {}, number), Number.isFinite(cell.count) ? ` ${[...sure, unit].join(" ")}` : ""),
    ];
    const area = release.outlines?.km2[zone];
    if (area && Number.isFinite(cell.count)) lines.push(make("div", {}, fill(words.map.per_km2, { n: figures.about(cell.count / area) })));
    if (this.pinned >= 0) {
      const change = release.change(zone, slot, this.pinned);
      lines.push(make("div", {}, fill(words.map.change, { n: changeText(change, words), time: clock.short(this.pinned) })));
      if (release.uncertain && doubtful(change)) lines.push(make("div", { class: "tip-doubt" }, words.map.uncertain_change));
    } else if (release.doubted(zone, slot)) lines.push(make("div", { class: "tip-doubt" }, words.map.uncertain_here));
    lines.push(make("div", { class: "tip-more" }, `${clock.short(slot)}${release.facts.epsilon ? ` · ε ${release.facts.epsilon}` : ""}`));
    return showTip(tip, frame, x, y, lines);
  }

  /** What changed, for those who listen; not while the hours run. */
  say() {
    clearTimeout(this.later);
    if (this.player.on) return;
    this.later = setTimeout(() => {
      const { release, slot, words } = this;
      const zone = this.chosen >= 0 ? this.chosen : release.busiest(slot);
      if (zone < 0) return;
      const cell = release.cell(zone, slot);
      byId("live").textContent = fill(this.chosen >= 0 ? words.live.zone : words.live.busiest, {
        day: release.clock.day(slot), hours: release.clock.hours(slot), total: estimateText({ value: release.city[slot], lower: release.cityEnds?.[0][slot] ?? NaN, upper: release.cityEnds?.[1][slot] ?? NaN }, words), name: release.map.names[zone],
        count: countText(release.figures, cell),
      });
    }, 300);
  }

  /**
   * @param {"csv" | "geojson"} kind
   * @param {number[]} slots
   */
  save(kind, slots) {
    const { release } = this;
    const time = slots.length === 1 ? `-${release.clock.iso(slots[0]).slice(0, 16).replace(":", "")}` : "";
    const name = `${fileName(release.facts.name)}${time}.${kind}`;
    if (kind === "csv") save(name, csv(release, slots), "text/csv");
    else save(name, geojson(release, slots[0]), "application/geo+json");
    byId("saved").textContent = fill(this.words.download.saved, { name });
  }

  async copy() {
    const text = byId("cite-text").textContent ?? "";
    const done = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    if (!done) getSelection()?.selectAllChildren(byId("cite-text"));
    byId("copied").textContent = done ? this.words.cite.copied : this.words.cite.selected;
  }
}

/**
 * The latest hour of a stream that goes on; otherwise a lively one, the busiest of the first day.
 * @param {Release} release
 */
function firstShown(release) {
  if (release.facts.as_of) return release.slots - 1;
  const end = release.clock.days[1] ?? release.slots;
  let best = 0;
  for (let t = 1; t < end; t += 1) if (release.city[t] > release.city[best]) best = t;
  return best;
}

const data = JSON.parse(byId("data").textContent ?? "");
loadReleases(data).then((releases) => {
  const page = new Page(data.words, releases, data.bounds);
  document.documentElement.dataset.ready = "yes";
  Object.defineProperty(window, "sfumato", { value: { page, releases } });
}, (error) => {
  byId("broken").hidden = false;
  throw error;
});
