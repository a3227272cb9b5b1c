import { drawBoxes } from "./boxes.js";
import { drawSeries } from "./chart.js";
import { Player, wirePrint, wireTheme } from "./controls.js";
import { byId, canvasById, inputById, isDark, make, readInks, showTip } from "./dom.js";
import { fill, numberOf } from "./format.js";
import { classOf, evenBreaks } from "./breaks.js";
import { drawLegend } from "./legend.js";
import { MapView } from "./mapview.js";
import { Release } from "./model.js";
import { decodeNumbers } from "./numbers.js";
import { decodeOutlines } from "./outlines.js";
import { coloursFor, valueScene } from "./scene.js";
import { Tracks } from "./tracks.js";
import { attackRows, failRows, summaryRows } from "./verdicts.js";

/**
 * @typedef {{label: string, note: string, numbers: import("./numbers.js").NumbersData,
 *   interval: boolean, error: {hour: number[], zone: number[], size: number[][], box: number[], mean: number},
 *   hours: Record<string, number[]>, overall: Record<string, number>}} Contender
 * @typedef {{words: import("./format.js").Words, title: string, map: import("./model.js").MapData,
 *   clock: import("./times.js").ClockData, counting: string, truth: import("./numbers.js").NumbersData,
 *   sizes: number[], bar: number, contenders: Contender[], attacks: import("./verdicts.js").Attack[],
 *   tracks: import("./tracks.js").Track[], bounds: Record<string, number[]>}} InternalData
 */

const PANES = /** @type {const} */ (["original", "private", "error"]);
const TONES = { light: ["#c2410c", "#3d5a98", "#0f766e", "#7e3f98", "#8a6d00", "#5c6070"], dark: ["#ff9a5c", "#8fb3ff", "#5fd4c4", "#d7a3f0", "#e3c44f", "#a3a8b8"] };

/** The internal page: three maps in step, and how the releases compare. */
class Internal {
  /**
   * @param {InternalData} data
   * @param {Release} truth
   * @param {Release[]} releases
   */
  constructor(data, truth, releases) {
    this.data = data;
    this.words = data.words;
    this.truth = truth;
    this.releases = releases;
    this.at = 0;
    this.slot = 0;
    this.chosen = -1;
    this.inks = readInks();
    /** @type {import("./model.js").Measure} */
    this.measure = truth.hasAreas ? "density" : "count";
    this.breaks = data.bounds[this.measure] ?? [];
    /** @type {number[]} */
    this.even = [];
    this.maps = PANES.map((id) => this.pane(id));
    this.tracks = new Tracks(data.tracks, truth, this.words);
    this.player = new Player(() => this.go((this.slot + 1) % truth.slots), (on) => byId("play").setAttribute("aria-pressed", String(on)));
    const { clock } = truth;
    byId("subtitle").textContent = fill(this.words.internal.against, { zones: numberOf(this.words.number_of.places, truth.zones, truth.figures), slots: numberOf(this.words.number_of.slots, truth.slots, truth.figures), period: clock.period(), tz: clock.tz });
    inputById("slider").max = String(truth.slots - 1);
    byId("judged").append(...data.contenders.map((c, k) => make("option", { value: k }, c.label)));
    byId("slider").addEventListener("input", () => this.go(Number(inputById("slider").value)));
    byId("play").addEventListener("click", () => this.player.toggle());
    byId("judged").addEventListener("change", () => this.judge(Number(inputById("judged").value)));
    this.extra = this.makePlots();
    wireTheme(this.words, () => this.repaint());
    wirePrint(() => this.repaint(), () => [...this.maps, ...(this.tracks.map ? [this.tracks.map] : [])].forEach((map) => map.flatten()));
    new ResizeObserver(() => this.plots()).observe(byId("more-hours").parentElement ?? document.body);
    this.repaint();
    this.go(12 < truth.slots ? 12 : 0);
  }

  /** @param {string} id */
  pane(id) {
    const frame = byId(id);
    const tip = /** @type {HTMLElement} */ (frame.querySelector(".tip"));
    const map = new MapView(frame, {
      hover: (zone, x, y) => this.hover(zone, x, y, tip, frame),
      pick: (zone) => this.choose(zone),
      moved: (view) => this.maps.forEach((other) => other !== map && other.follow(view)),
    });
    if (this.truth.outlines) map.setMap(this.truth.outlines, this.truth.map);
    return map;
  }

  /** A chart for every series by slot that the evaluation brought along. */
  makePlots() {
    const names = [...new Set(this.data.contenders.flatMap((c) => Object.keys(c.hours)))].sort();
    return names.map((name) => {
      const title = this.words.internal.hours[name] ?? name;
      const canvas = /** @type {HTMLCanvasElement} */ (make("canvas", { role: "img", "aria-label": title, id: `hours-${name}` }));
      byId("more-hours").append(make("section", { class: "card" }, make("h2", {}, title), make("div", { class: "plot" }, canvas)));
      return { name, canvas };
    });
  }

  tones() {
    return TONES[isDark() ? "dark" : "light"];
  }

  repaint() {
    this.inks = readInks();
    for (const map of this.maps) map.ink(this.inks);
    this.tracks.ink(this.inks, this.tones());
    this.judge(this.at);
  }

  /** @param {number} k which release is judged */
  judge(k) {
    this.at = k;
    const { truth, words, data } = this;
    const one = data.contenders[k];
    const released = this.releases[k];
    const all = [];
    const stride = Math.max(1, Math.floor((truth.zones * truth.slots) / 20011));
    for (let c = 0; c < truth.zones * truth.slots; c += stride) {
      const [z, t] = [Math.floor(c / truth.slots), c % truth.slots];
      all.push(released.value(z, t, this.measure) - truth.value(z, t, this.measure));
    }
    this.even = evenBreaks(all);
    byId("note").textContent = one.note;
    const unit = fill(this.measure === "density" ? words.internal.per_km2 : words.internal.per_zone, { unit: words.counting_unit[data.counting] ?? data.counting });
    const format = (/** @type {number} */ v) => truth.figures.about(v);
    drawLegend(byId("legend-values"), { title: `${words.internal.original}, ${words.internal.private}`, unit, breaks: this.breaks, colours: coloursFor(this.breaks, false, isDark()), even: false, format, one: words.legend.one_class, marked: "", missing: "" });
    drawLegend(byId("legend-error"), { title: words.internal.error, unit, breaks: this.even, colours: coloursFor(this.even, true, isDark()), even: true, format, one: words.legend.one_class, marked: "", missing: "" });
    summaryRows(data.contenders, k, words, truth.figures, (at) => {
      inputById("judged").value = String(at);
      this.judge(at);
    });
    failRows(one, data.bar, truth, words, (zone) => this.choose(zone));
    attackRows(data.attacks, words, truth.figures);
    const key = (/** @type {{label: string}} */ c, /** @type {number} */ at) => {
      const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.backgroundColor = this.tones()[at % this.tones().length];
      return make("li", {}, swatch, c.label);
    };
    byId("contender-key").replaceChildren(...data.contenders.map(key));
    byId("series-key").replaceChildren(key({ label: words.internal.truth }, 5), key(one, k));
    this.go(this.slot);
  }

  /** @param {number} slot */
  go(slot) {
    this.slot = slot;
    const { truth } = this;
    const released = this.releases[this.at];
    inputById("slider").value = String(slot);
    inputById("slider").setAttribute("aria-valuetext", `${truth.clock.day(slot)}, ${truth.clock.hours(slot)}`);
    byId("time-hours").textContent = truth.clock.hours(slot);
    byId("time-day").textContent = truth.clock.day(slot);
    byId("time-zone").textContent = truth.clock.zone(slot);
    const colours = coloursFor(this.breaks, false, isDark());
    this.maps[0].paint(valueScene(truth, slot, this.measure, this.breaks).classes, colours, null);
    this.maps[1].paint(valueScene(released, slot, this.measure, this.breaks).classes, colours, null);
    const apart = new Int8Array(truth.zones);
    for (let z = 0; z < truth.zones; z += 1) apart[z] = classOf(this.even, released.value(z, slot, this.measure) - truth.value(z, slot, this.measure));
    this.maps[2].paint(apart, coloursFor(this.even, true, isDark()), null, true);
    this.tracks.go(slot);
    this.plots();
  }

  plots() {
    const { truth, inks, data } = this;
    const tones = this.tones();
    const days = truth.clock.days.map((k) => ({ slot: k, name: truth.clock.shortDay(k) }));
    const format = (/** @type {number} */ v) => truth.figures.about(v);
    const lines = (/** @type {(c: Contender) => number[] | undefined} */ pick) =>
      data.contenders.flatMap((c, k) => {
        const values = pick(c);
        return values ? [{ values: values.map((v) => v ?? NaN), colour: tones[k % tones.length], width: k === this.at ? 2.25 : 1.25, dash: [] }] : [];
      });
    const common = { band: null, days, slots: truth.slots, mark: this.slot, second: -1, format, inks };
    drawSeries(canvasById("by-hour"), { ...common, lines: lines((c) => c.error.hour) });
    for (const { name, canvas } of this.extra) drawSeries(canvas, { ...common, lines: lines((c) => c.hours[name]), zero: name !== "pearson" });
    drawSeries(canvasById("by-size"), {
      ...common, lines: lines((c) => c.error.size.map((five) => five[2])), slots: data.sizes.length, mark: -1,
      days: data.sizes.map((v, k) => ({ slot: k, name: format(v) })),
      band: { lower: data.contenders[this.at].error.size.map((f) => f[1]), upper: data.contenders[this.at].error.size.map((f) => f[3]), colour: `${tones[this.at % tones.length]}33` },
    });
    this.tracks.plot();
    drawBoxes(canvasById("boxes"), data.contenders.map((c, k) => ({ name: c.label, five: c.error.box, colour: tones[k % tones.length], strong: k === this.at })), format, inks, data.bar);
    const zone = this.chosen < 0 ? truth.busiest(this.slot) : this.chosen;
    const released = this.releases[this.at];
    byId("series-title").textContent = truth.title(zone);
    drawSeries(canvasById("series"), {
      ...common,
      lines: [{ values: truth.row(zone, "count"), colour: tones[5], width: 1.5, dash: [5, 3] }, { values: released.row(zone, "count"), colour: tones[this.at % tones.length], width: 2, dash: [] }],
      band: data.contenders[this.at].interval ? { lower: released.row(zone, "lower"), upper: released.row(zone, "upper"), colour: `${tones[this.at % tones.length]}33` } : null,
    });
  }

  /** @param {number} zone */
  choose(zone) {
    this.chosen = zone;
    for (const map of this.maps) map.choose(zone);
    this.plots();
  }

  /**
   * @param {number} zone
   * @param {number} x
   * @param {number} y
   * @param {HTMLElement} tip
   * @param {HTMLElement} frame
   */
  hover(zone, x, y, tip, frame) {
    for (const map of this.maps) map.point(zone);
    if (zone < 0) return showTip(tip, frame, x, y, []);
    const { truth, words } = this;
    const [real, made] = [truth.cell(zone, this.slot), this.releases[this.at].cell(zone, this.slot)];
    const { figures } = this.releases[this.at];
    const interval = this.data.contenders[this.at].interval ? figures.interval(made.count, made.lower, made.upper) : "";
    const apart = made.count - real.count;
    return showTip(tip, frame, x, y, [
      make("div", { class: "tip-name", dir: "auto" }, truth.title(zone)),
      fill(words.internal.tip_true, { n: truth.figures.count(real.count) }),
      fill(words.internal.tip_private, { n: figures.count(made.count), interval }),
      fill(words.internal.tip_error, { n: `${apart < 0 ? "−" : "+"}${figures.count(Math.abs(apart))}` }),
    ]);
  }
}

/** @type {InternalData} */
const data = JSON.parse(byId("data").textContent ?? "");

/** @param {import("./numbers.js").NumbersData} numbers */
async function table(numbers) {
  const facts = { counting: data.counting, epsilon: null };
  return new Release({ map: 0, clock: data.clock, numbers, city: [], facts }, data.map, await shapes, await decodeNumbers(numbers), null, null, data.words);
}

const shapes = data.map.outlines ? decodeOutlines(data.map.outlines) : Promise.resolve(null);
Promise.all([table(data.truth), ...data.contenders.map((c) => table(c.numbers))]).then(([truth, ...releases]) => {
  const page = new Internal(data, truth, releases);
  document.documentElement.dataset.ready = "yes";
  Object.defineProperty(window, "sfumato", { value: { page } });
}, (error) => {
  byId("broken").hidden = false;
  throw error;
});
