import { classOf, evenBreaks } from "./breaks.js";
import { diverging, sequential } from "./colours.js";

/**
 * What the map shows for a state: classes, colours, marks. Pure; tested without a screen.
 * @typedef {import("./model.js").Release} Release
 * @typedef {import("./model.js").Measure} Measure
 * @typedef {{classes: Int8Array, marked: Uint8Array, breaks: number[], missing: boolean, uncertain: number}} Scene
 */

/**
 * @param {Release} release
 * @param {number} pinned
 * @param {Measure} measure
 */
export function changeBreaks(release, pinned, measure) {
  const stride = Math.max(1, Math.floor((release.zones * release.slots) / 20011));
  const kept = [];
  for (let k = 0; k < release.zones * release.slots; k += stride) {
    const z = Math.floor(k / release.slots);
    kept.push(release.value(z, k % release.slots, measure) - release.value(z, pinned, measure));
  }
  return evenBreaks(kept);
}

/**
 * Marked: the estimation error exceeds half of the value.
 * @param {Release} release
 * @param {number} slot
 * @param {Measure} measure
 * @param {number[]} breaks
 * @returns {Scene}
 */
export function valueScene(release, slot, measure, breaks) {
  return scene(release, breaks, (z) => release.value(z, slot, measure), (z) => release.doubted(z, slot));
}

/**
 * Marked: the estimation error of the change exceeds half of it.
 * @param {Release} release
 * @param {number} slot
 * @param {number} pinned
 * @param {Measure} measure
 * @param {number[]} breaks
 * @returns {Scene}
 */
export function changeScene(release, slot, pinned, measure, breaks) {
  const value = (/** @type {number} */ z) => release.value(z, slot, measure) - release.value(z, pinned, measure);
  return scene(release, breaks, value, (z) => doubtful(release.change(z, slot, pinned)));
}

/** @param {import("./model.js").Change} change */
export function doubtful({ value, error }) {
  return error > Math.abs(value) / 2;
}

/**
 * @param {Release} release
 * @param {number[]} breaks
 * @param {(zone: number) => number} value
 * @param {(zone: number) => boolean} doubted
 * @returns {Scene}
 */
function scene(release, breaks, value, doubted) {
  const classes = new Int8Array(release.zones);
  const marked = new Uint8Array(release.zones);
  for (let z = 0; z < release.zones; z += 1) {
    classes[z] = classOf(breaks, value(z));
    marked[z] = classes[z] >= 0 && doubted(z) ? 1 : 0;
  }
  return { classes, marked, breaks, missing: classes.some((k) => k < 0), uncertain: marked.reduce((n, m) => n + m, 0) };
}

/**
 * @param {number[]} breaks
 * @param {boolean} even
 * @param {boolean} dark
 */
export function coloursFor(breaks, even, dark) {
  return even ? diverging(breaks.length + 1, dark) : sequential(breaks.length + 1, dark);
}

/**
 * @param {Release} release
 * @param {"total" | "name" | "peak"} by
 * @returns {number[]}
 */
export function stripOrder(release, by) {
  const zones = Array.from({ length: release.zones }, (_, z) => z);
  if (by === "name") return zones.sort((a, b) => release.map.names[a].localeCompare(release.map.names[b]) || a - b);
  const key = zones.map((z) => (by === "total" ? -release.total(z) : peak(release, z)));
  return zones.sort((a, b) => key[a] - key[b] || a - b);
}

/**
 * When in the day a zone is busy: the mean direction of its counts around the clock.
 * @param {Release} release
 * @param {number} zone
 */
function peak(release, zone) {
  let [x, y] = [0, 0];
  release.row(zone, "count").forEach((v, t) => {
    const turn = (release.clock.moments[t].hour / 24) * 2 * Math.PI;
    if (v === v) {
      x += v * Math.cos(turn);
      y += v * Math.sin(turn);
    }
  });
  return (Math.atan2(y, x) + 2 * Math.PI - 1.05) % (2 * Math.PI);
}
