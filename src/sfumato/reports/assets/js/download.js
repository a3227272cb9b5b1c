import { degrees, ringPoints } from "./outlines.js";

/** @typedef {import("./model.js").Release} Release */

/**
 * One field of a CSV file; what a spreadsheet would run as a formula is made text.
 * @param {string | number} value
 */
export function csvField(value) {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n']/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/**
 * @param {Release} release
 * @param {number[]} slots
 */
export function csv(release, slots) {
  const lines = [`zone_id,name,time_start,time_end,count${release.medians ? ",median" : ""}${release.intervals ? ",lower,upper" : ""}`];
  for (let z = 0; z < release.zones; z += 1) {
    for (const t of slots) {
      const c = release.cell(z, t);
      const fields = [release.map.ids[z], release.map.names[z], release.clock.iso(t), release.clock.isoEnd(t), c.count, ...(release.medians ? [c.median] : []), ...(release.intervals ? [c.lower, c.upper] : [])];
      lines.push(fields.map(csvField).join(","));
    }
  }
  return `${lines.join("\r\n")}\r\n`;
}

/**
 * @param {Release} release
 * @param {number} slot
 */
export function geojson(release, slot) {
  const { outlines, map, clock, facts } = release;
  const features = map.ids.map((id, z) => {
    const c = release.cell(z, slot);
    const known = (/** @type {number} */ v) => (Number.isFinite(v) ? v : null);
    const middle = release.medians ? { median: known(c.median) } : {};
    const ends = release.intervals ? { lower: known(c.lower), upper: known(c.upper) } : {};
    const properties = { zone_id: id, name: map.names[z], time_start: clock.iso(slot), time_end: clock.isoEnd(slot), count: known(c.count), ...middle, ...ends };
    return { type: "Feature", properties, geometry: outlines ? geometry(outlines, z) : null };
  });
  const note = outlines ? `Outlines are for the screen, exact to about ${outlines.plane.tolerance_m} m; zones.geojson of the release has the originals.` : "";
  return JSON.stringify({ type: "FeatureCollection", release: facts.id, epsilon: facts.epsilon, delta: facts.delta, unit: facts.unit, note, features });
}

/**
 * Rings back in degrees: outer ones counter-clockwise with the holes that lie in them.
 * @param {import("./outlines.js").Outlines} map
 * @param {number} zone
 */
function geometry(map, zone) {
  const anchor = map.anchors[zone];
  if (!map.rings[zone].length) return anchor ? { type: "Point", coordinates: degrees(map.plane, anchor[0], anchor[1]) } : null;
  /** @type {[number, number][][][]} */
  const polygons = [];
  for (const ring of map.rings[zone]) {
    const flat = ringPoints(map.arcs, ring);
    const points = [];
    let twice = 0;
    for (let k = 0; k < flat.length; k += 2) {
      const next = (k + 2) % flat.length;
      twice += flat[k] * flat[next + 1] - flat[next] * flat[k + 1];
      points.push(degrees(map.plane, flat[k], flat[k + 1]));
    }
    const hole = holds(map, zone, ring, flat);
    if (twice > 0 !== hole) points.reverse();
    points.push(points[0]);
    if (hole && polygons.length) polygons[polygons.length - 1].push(points);
    else polygons.push([points]);
  }
  return polygons.length === 1 ? { type: "Polygon", coordinates: polygons[0] } : { type: "MultiPolygon", coordinates: polygons };
}

/**
 * Whether a ring lies inside another ring of its zone.
 * @param {import("./outlines.js").Outlines} map
 * @param {number} zone
 * @param {number[]} ring
 * @param {number[]} flat
 */
function holds(map, zone, ring, flat) {
  let depth = 0;
  const [x, y] = [(flat[0] + flat[2]) / 2, (flat[1] + flat[3]) / 2];
  for (const other of map.rings[zone]) {
    if (other === ring) continue;
    const p = ringPoints(map.arcs, other);
    let inside = false;
    for (let k = 0, j = p.length - 2; k < p.length; j = k, k += 2) {
      if (p[k + 1] > y !== p[j + 1] > y && x < ((p[j] - p[k]) * (y - p[k + 1])) / (p[j + 1] - p[k + 1]) + p[k]) inside = !inside;
    }
    if (inside) depth += 1;
  }
  return depth % 2 === 1;
}

/**
 * Hand a file to the browser; nothing leaves the machine.
 * @param {string} name
 * @param {string} text
 * @param {string} type
 */
export function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** @param {string} text something a file may be called */
export function fileName(text) {
  return text.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[-.]+|-+$/g, "").slice(0, 60) || "release";
}
