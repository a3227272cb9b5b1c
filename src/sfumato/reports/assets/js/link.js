/**
 * What is shown, in the address: `#zone=Z00003&time=2007-09-10T20:00:00+02:00&view=0.5,0.43,2.2`.
 * Whoever gets the address sees the same. Parts that say nothing sensible are ignored.
 * @typedef {import("./model.js").Release} Release
 * @typedef {{x: number, y: number, zoom: number}} Look middle of the screen in parts of the map, and how near
 * @typedef {{release?: number, zone?: number, slot?: number, since?: number,
 *   measure?: import("./model.js").Measure, uncertain?: boolean, look?: Look}} Linked
 */

/**
 * @param {{releases: Release[], release: Release, chosen: number, slot: number, pinned: number,
 *   measure: string, usual: string, uncertain: boolean, look: Look | null}} state
 * @returns {string} with its #
 */
export function writeLink(state) {
  const { releases, release } = state;
  const short = (/** @type {number} */ v) => String(Number(v.toFixed(3)));
  /** @type {[string, string][]} */
  const parts = [["time", release.clock.iso(state.slot)]];
  if (releases.length > 1) parts.unshift(["release", release.facts.id]);
  if (state.chosen >= 0) parts.push(["zone", release.map.ids[state.chosen]]);
  if (state.pinned >= 0) parts.push(["since", release.clock.iso(state.pinned)]);
  if (state.measure !== state.usual) parts.push(["by", state.measure]);
  if (state.uncertain) parts.push(["uncertain", "shown"]);
  if (state.look) parts.push(["view", [state.look.x, state.look.y, state.look.zoom].map(short).join(",")]);
  const plain = (/** @type {string} */ text) => encodeURIComponent(text).replace(/%3A/g, ":").replace(/%2B/g, "+").replace(/%2C/g, ",");
  return `#${parts.map(([key, value]) => `${key}=${plain(value)}`).join("&")}`;
}

/**
 * @param {string} hash
 * @param {Release[]} releases
 * @param {Release} current
 * @returns {Linked} only what can be shown
 */
export function readLink(hash, releases, current) {
  const given = new Map(hash.replace(/^#/, "").split("&").map((part) => /** @type {[string, string]} */ (pair(part))));
  /** @type {Linked} */
  const found = {};
  const index = releases.findIndex((r) => r.facts.id === given.get("release"));
  if (index >= 0) found.release = index;
  const release = index >= 0 ? releases[index] : current;
  const zone = release.map.ids.indexOf(given.get("zone") ?? "");
  if (zone >= 0 && given.has("zone")) found.zone = zone;
  const slot = slotAt(release, given.get("time"));
  if (slot >= 0) found.slot = slot;
  const since = slotAt(release, given.get("since"));
  if (since >= 0) found.since = since;
  const by = given.get("by");
  if (by === "count" || (by === "density" && release.hasAreas)) found.measure = by;
  if (given.get("uncertain") === "shown" && release.uncertain) found.uncertain = true;
  const look = (given.get("view") ?? "").split(",").map(Number);
  const [x, y, zoom] = look;
  if (release.outlines && look.length === 3 && x >= 0 && x <= 1 && y >= 0 && y <= 1 && zoom > 1 && zoom <= 40) found.look = { x, y, zoom };
  return found;
}

/** @param {string} part of an address */
function pair(part) {
  const at = part.indexOf("=");
  try {
    return [part.slice(0, Math.max(at, 0)), decodeURIComponent(part.slice(at + 1))];
  } catch {
    return ["", ""]; // a percent sign that means nothing
  }
}

/**
 * @param {Release} release
 * @param {string | undefined} text an instant
 * @returns {number} the slot it lies in, or -1
 */
function slotAt({ clock }, text) {
  const second = Date.parse(text ?? "") / 1000;
  return clock.starts.findIndex((start, k) => start <= second && second < start + clock.lengths[k]);
}
