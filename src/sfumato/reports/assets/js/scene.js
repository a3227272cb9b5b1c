import { classBreaks, classOf, evenBreaks } from "./breaks.js";
import { diverging, sequential } from "./colours.js";

/**
 * What the map shows for a state: classes, colours, marks. Pure; tested without a screen.
 * @typedef {import("./model.js").Release} Release
 * @typedef {import("./model.js").Measure} Measure
 * @typedef {{classes: Int8Array, marked: Uint8Array, breaks: number[], missing: boolean}} Scene
 */

/**
 * Bounds for all hours of all releases, so that colours keep their meaning.
 * @param {Release[]} releases
 * @param {Measure} measure
 */
export function sharedBreaks(releases, measure) {
  const values = releases.flatMap((r) => {
    const stride = Math.max(1, Math.floor((r.zones * r.slots) / 20011));
    const kept = [];
    for (let k = 0; k < r.zones * r.slots; k += stride) kept.push(r.value(Math.floor(k / r.slots), k % r.slots, measure));
    return kept;
  });
  return classBreaks(values);
}

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
 * Marked: the interval reaches more than half the value to either side.
 * @param {Release} release
 * @param {number} slot
 * @param {Measure} measure
 * @param {number[]} breaks
 * @returns {Scene}
 */
export function valueScene(release, slot, measure, breaks) {
  const classes = new Int8Array(release.zones);
  const marked = new Uint8Array(release.zones);
  let missing = false;
  for (let z = 0; z < release.zones; z += 1) {
    const cell = release.cell(z, slot);
    classes[z] = classOf(breaks, cell.count / release.per(z, measure));
    marked[z] = cell.upper - cell.lower > cell.count ? 1 : 0;
    missing ||= classes[z] < 0;
  }
  return { classes, marked, breaks, missing };
}

/**
 * Marked: the two intervals are wide enough to explain the change.
 * @param {Release} release
 * @param {number} slot
 * @param {number} pinned
 * @param {Measure} measure
 * @param {number[]} breaks
 * @returns {Scene}
 */
export function changeScene(release, slot, pinned, measure, breaks) {
  const classes = new Int8Array(release.zones);
  const marked = new Uint8Array(release.zones);
  let missing = false;
  for (let z = 0; z < release.zones; z += 1) {
    const [now, then] = [release.cell(z, slot), release.cell(z, pinned)];
    const change = now.count - then.count;
    classes[z] = classOf(breaks, change / release.per(z, measure));
    marked[z] = Math.abs(change) < Math.hypot(now.upper - now.lower, then.upper - then.lower) / 2 ? 1 : 0;
    missing ||= classes[z] < 0;
  }
  return { classes, marked, breaks, missing };
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
