import { byId, inputById, make } from "./dom.js";
import { estimateText } from "./estimate.js";
import { fill, numberOf } from "./format.js";
import { within } from "./outlines.js";

/**
 * @typedef {"look" | "pick" | "box" | "outline"} Mode
 * @typedef {{x: number, y: number}} Point
 */

const MODES = /** @type {const} */ (["look", "pick", "box", "outline"]);
const SHOWN = 24; // chips of chosen zones; a longer list is no list that is read

/** Some zones and a stretch of hours, and their sum. Where no zone is chosen, all are meant. */
export class Selection {
  /**
   * @param {import("./format.js").Words} words
   * @param {{changed: () => void, slot: () => number}} tell
   */
  constructor(words, tell) {
    this.words = words.sum;
    this.all = words;
    this.tell = tell;
    /** @type {Set<number>} */
    this.zones = new Set();
    /** @type {Mode} */
    this.mode = "look";
    this.first = 0;
    this.last = 0;
    /** @type {import("./model.js").Release | null} */
    this.release = null;
    for (const mode of MODES) byId(`tool-${mode}`).addEventListener("click", () => this.use(mode));
    byId("sum-clear").addEventListener("click", () => this.set([]));
    for (const id of ["sum-from", "sum-to"]) byId(id).addEventListener("input", () => this.stretch(id === "sum-to"));
    const spans = { slot: () => [this.tell.slot(), this.tell.slot()], day: () => this.day(), whole: () => [0, this.slots - 1] };
    for (const [name, span] of Object.entries(spans)) {
      byId(`sum-${name}`).addEventListener("click", () => {
        [this.first, this.last] = span();
        this.write();
      });
    }
  }

  get slots() {
    return this.release?.slots ?? 1;
  }

  /** @param {import("./model.js").Release} release */
  show(release) {
    const same = this.release?.map === release.map;
    if (!same) this.zones.clear();
    if (!same || this.release?.slots !== release.slots) [this.first, this.last] = [0, release.slots - 1];
    this.release = release;
    for (const id of ["sum-from", "sum-to"]) inputById(id).max = String(release.slots - 1);
    byId("tools").hidden = !release.outlines;
    this.use(release.outlines ? this.mode : "look");
    this.write();
  }

  /** @param {Mode} mode */
  use(mode) {
    this.mode = mode;
    for (const name of MODES) byId(`tool-${name}`).setAttribute("aria-pressed", String(name === mode));
    byId("tool-hint").textContent = this.words.hints[mode];
  }

  /** Whether a finger or a mouse button that goes down draws. */
  draws() {
    return this.mode === "box" || this.mode === "outline";
  }

  /** @param {number} zone */
  toggle(zone) {
    if (zone < 0) return;
    if (!this.zones.delete(zone)) this.zones.add(zone);
    this.tell.changed();
    this.write();
  }

  /** @param {Iterable<number>} zones */
  set(zones) {
    this.zones = new Set(zones);
    this.tell.changed();
    this.write();
  }

  /**
   * Add the zones whose middle lies in what was drawn.
   * @param {Point[]} path on the lattice of the map
   * @param {import("./outlines.js").Outlines} map
   */
  drawn(path, map) {
    const points = this.corners(path).flatMap(({ x, y }) => [x, y]);
    this.set([...this.zones, ...map.anchors.flatMap((a, z) => (a && within(points, a[0], a[1]) ? [z] : []))]);
  }

  /**
   * The shape that a path of the pointer means.
   * @param {Point[]} path
   */
  corners(path) {
    if (this.mode !== "box") return path;
    const [a, b] = [path[0], path[path.length - 1]];
    return [a, { x: b.x, y: a.y }, b, { x: a.x, y: b.y }];
  }

  /** @param {boolean} end whether the end of the stretch was moved */
  stretch(end) {
    [this.first, this.last] = [Number(inputById("sum-from").value), Number(inputById("sum-to").value)];
    if (this.first > this.last) [this.first, this.last] = end ? [this.last, this.last] : [this.first, this.first];
    this.write();
  }

  /** @returns {number[]} the day of the hour shown */
  day() {
    const days = this.release?.clock.days ?? [0];
    const at = this.tell.slot();
    const next = days.find((d) => d > at) ?? this.slots;
    return [Math.max(...days.filter((d) => d <= at)), next - 1];
  }

  /** @returns {number[]} the zones that are added up */
  chosen() {
    return this.zones.size ? [...this.zones].sort((a, b) => a - b) : Array.from({ length: this.release?.zones ?? 0 }, (_, z) => z);
  }

  /** The sum and everything that says of what it is. */
  write() {
    const { release, words, first, last } = this;
    if (!release) return;
    const { clock, facts, figures } = release;
    const chosen = this.chosen();
    const sum = release.sum(chosen, first, last);
    const slots = last - first + 1;
    const unit = this.all.counting_unit[facts.counting] ?? this.all.counting_unit.visits;
    const text = estimateText(sum, this.all);
    const every = numberOf(this.all.number_of.places, release.zones, figures);
    const zones = release.zones === 1 ? words.only
      : this.zones.size ? fill(words.some, { n: figures.whole.format(chosen.length), zones: every }) : fill(words.all, { zones: every });
    byId("sum-value").replaceChildren(make("strong", {}, text), ` ${unit}`);
    byId("sum-of").textContent = fill(words.of, { zones, from: clock.short(first), to: clock.until(last), slots: numberOf(this.all.number_of.slots, slots, figures) });
    const mean = { value: sum.value / slots, lower: sum.lower / slots, upper: sum.upper / slots };
    byId("sum-mean").textContent = slots > 1 ? fill(words.mean, { n: estimateText(mean, this.all), unit }) : "";
    const percent = figures.about(100 * (release.factors?.data.coverage ?? 0));
    byId("sum-sure").textContent = release.factors ? fill(words.sure, { percent }) : words.unsure;
    byId("tool-sum").textContent = `${numberOf(this.all.number_of.places, chosen.length, figures)}: ${text}`;
    byId("sum-clear").hidden = byId("tool-sum").hidden = !this.zones.size;
    for (const [id, slot] of /** @type {[string, number][]} */ ([["sum-from", first], ["sum-to", last]])) {
      inputById(id).value = String(slot);
      inputById(id).setAttribute("aria-valuetext", `${clock.day(slot)}, ${clock.hours(slot)}`);
      byId(`${id}-text`).textContent = id === "sum-from" ? clock.short(slot) : clock.until(slot);
    }
    this.list(chosen);
  }

  /** @param {number[]} chosen */
  list(chosen) {
    const { release, words } = this;
    const some = this.zones.size ? chosen.slice(0, SHOWN) : [];
    const items = some.map((z) => {
      const name = release?.map.names[z] ?? "";
      const button = make("button", { type: "button", "aria-label": fill(words.leave_out, { name }), dir: "auto" }, `${name} ×`);
      button.addEventListener("click", () => this.toggle(z));
      return make("li", {}, button);
    });
    if (this.zones.size > SHOWN) items.push(make("li", { class: "muted" }, fill(words.more, { n: this.zones.size - SHOWN })));
    byId("sum-zones").replaceChildren(...items);
  }
}

/**
 * The line of what is being drawn.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Point[]} corners in pixels of the frame
 * @param {import("./mapdraw.js").Inks} inks
 */
export function drawLasso(ctx, corners, inks) {
  ctx.beginPath();
  corners.forEach(({ x, y }, k) => (k ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.closePath();
  ctx.setLineDash([6, 4]);
  for (const [colour, width] of /** @type {[string, number][]} */ ([[inks.halo, 4], [inks.accent, 2]])) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.stroke();
  }
  ctx.setLineDash([]);
}
