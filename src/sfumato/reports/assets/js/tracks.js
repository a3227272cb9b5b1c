import { drawSeries } from "./chart.js";
import { byId, canvasById, inputById, isDark, make, showTip } from "./dom.js";
import { fill } from "./format.js";
import { MapView } from "./mapview.js";

/**
 * @typedef {{contender: string, right: number[], guessing: number[], true: number[][], found: number[][]}} Track
 * @typedef {import("./view.js").View} View
 */

const BAND = { light: "#3d5a9888", dark: "#8fb3ff88" };
const LINE = { light: "#c2410c", dark: "#ff9a5c" };
const ALL = -1;

/**
 * Slots in which both agree; -1 is nowhere and agrees with nothing.
 * @param {number[]} one
 * @param {number[]} other
 */
export function agreed(one, other) {
  return one.reduce((n, place, t) => n + (place >= 0 && place === other[t] ? 1 : 0), 0);
}

/**
 * The way through places that are known, without standing still: what a line on a map can show.
 * @param {number[]} places
 */
export function steps(places) {
  return places.filter((place, t) => place >= 0 && place !== places[t - 1]);
}

/** Recovered and true trajectories on a map, and how often the attack was right, slot by slot. */
export class Tracks {
  /**
   * @param {Track[]} tracks
   * @param {import("./model.js").Release} truth
   * @param {import("./format.js").Words} words
   */
  constructor(tracks, truth, words) {
    this.tracks = tracks;
    this.truth = truth;
    this.words = words;
    this.at = 0;
    this.person = 0;
    this.slot = 0;
    /** @type {import("./mapdraw.js").Inks | null} */
    this.inks = null;
    /** @type {string[]} */
    this.tones = [];
    byId("tracks-box").hidden = !tracks.length || !truth.outlines;
    if (!tracks.length || !truth.outlines) return;
    const frame = byId("tracks-map");
    const tip = /** @type {HTMLElement} */ (frame.querySelector(".tip"));
    this.map = new MapView(frame, {
      hover: (zone, x, y) => showTip(tip, frame, x, y, zone < 0 ? [] : [truth.title(zone)]),
      pick: () => {},
      over: (ctx, view) => this.draw(ctx, view),
    });
    this.map.setMap(truth.outlines, truth.map);
    byId("tracks-table").append(...tracks.map((t, k) => make("option", { value: k }, t.contender)));
    byId("tracks-table").addEventListener("change", () => this.choose(Number(inputById("tracks-table").value), this.person));
    byId("tracks-person").addEventListener("change", () => this.choose(this.at, Number(inputById("tracks-person").value)));
    this.choose(0, this.ordinary());
  }

  /** Whom to show first: somebody in the middle, neither the best nor the worst found. */
  ordinary() {
    const one = this.tracks[0];
    const order = one.true.map((row, k) => ({ k, n: agreed(row, one.found[k]) })).sort((a, b) => a.n - b.n);
    return order[Math.floor(order.length / 2)].k;
  }

  /**
   * @param {number} at which table
   * @param {number} person or all of them
   */
  choose(at, person) {
    this.at = at;
    this.person = person;
    const { words, truth } = this;
    const one = this.tracks[at];
    const names = one.true.map((row, k) => fill(words.internal.tracks_one, { k: k + 1, n: agreed(row, one.found[k]), slots: truth.slots }));
    byId("tracks-person").replaceChildren(
      ...names.map((name, k) => make("option", { value: k }, name)),
      make("option", { value: ALL }, fill(words.internal.tracks_all, { n: names.length })),
    );
    inputById("tracks-person").value = String(person);
    this.map?.draw();
    this.plot();
  }

  /**
   * @param {import("./mapdraw.js").Inks} inks
   * @param {string[]} tones
   */
  ink(inks, tones) {
    this.inks = inks;
    this.tones = tones;
    if (!this.map) return;
    this.map.ink(inks);
    this.map.paint(new Int8Array(this.truth.zones), [inks.paper], null, true);
    const { words } = this;
    const key = (/** @type {string} */ colour, /** @type {string} */ text, dashed = false) => {
      const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = dashed ? `repeating-linear-gradient(90deg, ${colour} 0 5px, transparent 5px 8px)` : colour;
      return make("li", {}, swatch, text);
    };
    byId("tracks-key").replaceChildren(key(this.pick(BAND), words.internal.tracks_true), key(this.pick(LINE), words.internal.tracks_found));
    byId("by-slot-key").replaceChildren(...this.tracks.map((t, k) => key(tones[k % tones.length], t.contender)), key(inks.muted, words.internal.knows_others, true));
  }

  /** @param {number} slot */
  go(slot) {
    this.slot = slot;
    this.map?.drawAbove();
    this.plot();
  }

  /** @param {{light: string, dark: string}} pair */
  pick(pair) {
    return pair[isDark() ? "dark" : "light"];
  }

  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {View} view
   */
  draw(ctx, view) {
    const one = this.tracks[this.at];
    const shown = this.person === ALL ? one.true.map((_, k) => k) : [this.person];
    for (const k of shown) this.line(ctx, view, one.true[k], this.pick(BAND), shown.length > 1 ? 6 : 10);
    for (const k of shown) this.line(ctx, view, one.found[k], this.pick(LINE), shown.length > 1 ? 1.5 : 2.5);
    for (const k of shown) {
      this.dot(ctx, view, one.true[k][this.slot], 9, false);
      this.dot(ctx, view, one.found[k][this.slot], 4, true);
    }
  }

  /**
   * @param {View} view
   * @param {number} place
   */
  spot(view, place) {
    const anchor = this.truth.outlines?.anchors[place];
    return anchor ? [view.x + view.scale * anchor[0], view.y + view.scale * anchor[1]] : null;
  }

  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {View} view
   * @param {number[]} places
   * @param {string} colour
   * @param {number} width
   */
  line(ctx, view, places, colour, width) {
    const way = steps(places).flatMap((place) => {
      const at = this.spot(view, place);
      return at ? [at] : [];
    });
    if (!way.length) return;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.lineJoin = ctx.lineCap = "round";
    ctx.beginPath();
    way.forEach(([x, y]) => ctx.lineTo(x, y));
    if (way.length === 1) ctx.lineTo(way[0][0] + 0.01, way[0][1]);
    ctx.stroke();
  }

  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {View} view
   * @param {number} place
   * @param {number} radius
   * @param {boolean} full
   */
  dot(ctx, view, place, radius, full) {
    const at = this.spot(view, place);
    if (!at) return;
    ctx.beginPath();
    ctx.arc(at[0], at[1], radius, 0, 2 * Math.PI);
    ctx.lineWidth = 2;
    ctx.strokeStyle = this.inks?.ink ?? "#000";
    ctx.fillStyle = this.pick(LINE);
    if (full) ctx.fill();
    else ctx.stroke();
  }

  plot() {
    if (!this.map || !this.inks) return;
    const { truth, tracks, tones, inks } = this;
    const days = truth.clock.days.map((k) => ({ slot: k, name: truth.clock.shortDay(k) }));
    const percent = (/** @type {number[]} */ shares) => shares.map((v) => 100 * (v ?? NaN));
    const lines = tracks.map((t, k) => ({ values: percent(t.right), colour: tones[k % tones.length], width: k === this.at ? 2.25 : 1.25, dash: [] }));
    const guess = { values: percent(tracks[this.at].guessing), colour: inks.muted, width: 1.5, dash: [5, 3] };
    drawSeries(canvasById("by-slot"), { lines: [guess, ...lines], band: null, days, slots: truth.slots, mark: this.slot, second: -1, format: (v) => truth.figures.about(v), inks });
  }
}
