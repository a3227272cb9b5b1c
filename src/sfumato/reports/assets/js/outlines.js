import { inflate, Varints } from "./bytes.js";

/**
 * @typedef {{lon: number, lat: number, metres: number, left: number, top: number,
 *   size: [number, number], data: string, km2: number[], tolerance_m: number}} OutlinesData
 * @typedef {{arcs: Int32Array[], rings: number[][][], anchors: (Int32Array | null)[],
 *   boxes: Float64Array, width: number, height: number, metres: number, km2: number[],
 *   plane: OutlinesData}} Outlines
 */

const EARTH = 6371007.2;

/**
 * @param {OutlinesData} data
 * @returns {Promise<Outlines>}
 */
export async function decodeOutlines(data) {
  const read = new Varints(await inflate(data.data));
  const arcs = [];
  let x = 0;
  let y = 0;
  for (let left = read.next(); left > 0; left -= 1) {
    const arc = new Int32Array(2 * read.next());
    for (let k = 0; k < arc.length; k += 2) {
      arc[k] = x += read.signed();
      arc[k + 1] = y += read.signed();
    }
    arcs.push(arc);
  }
  /** @type {number[][][]} */
  const rings = [];
  for (let left = read.next(); left > 0; left -= 1) {
    rings.push(list(read.next(), () => list(read.next(), () => read.signed())));
  }
  x = y = 0;
  const anchors = rings.map(() => {
    if (!read.next()) return null;
    x += read.signed();
    y += read.signed();
    return Int32Array.of(x, y);
  });
  const [width, height] = data.size;
  const boxes = boxesOf(arcs, rings);
  return { arcs, rings, anchors, boxes, width, height, metres: data.metres, km2: data.km2, plane: data };
}

/**
 * @template T
 * @param {number} size
 * @param {() => T} make
 * @returns {T[]}
 */
function list(size, make) {
  return Array.from({ length: size }, make);
}

/**
 * A ring's points in order, the first not repeated.
 * @param {Int32Array[]} arcs
 * @param {number[]} ring
 * @returns {number[]} x, y, x, y, …
 */
export function ringPoints(arcs, ring) {
  /** @type {number[]} */
  const points = [];
  for (const ref of ring) {
    const arc = arcs[ref < 0 ? ~ref : ref];
    const last = arc.length - 2;
    if (ref < 0) for (let k = last; k > 0; k -= 2) points.push(arc[k], arc[k + 1]);
    else for (let k = 0; k < last; k += 2) points.push(arc[k], arc[k + 1]);
  }
  return points;
}

/**
 * @param {Int32Array[]} arcs
 * @param {number[][][]} rings
 * @returns {Float64Array} left, top, right, bottom of each zone
 */
function boxesOf(arcs, rings) {
  const boxes = new Float64Array(4 * rings.length);
  rings.forEach((zone, z) => {
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (const ring of zone) {
      for (const ref of ring) {
        const arc = arcs[ref < 0 ? ~ref : ref];
        for (let k = 0; k < arc.length; k += 2) {
          box[0] = Math.min(box[0], arc[k]);
          box[1] = Math.min(box[1], arc[k + 1]);
          box[2] = Math.max(box[2], arc[k]);
          box[3] = Math.max(box[3], arc[k + 1]);
        }
      }
    }
    boxes.set(box, 4 * z);
  });
  return boxes;
}

/**
 * The zone under a point of the lattice, or -1; near a dot where zones are points.
 * @param {Outlines} map
 * @param {number} x
 * @param {number} y
 * @param {number} reach how far from a dot still counts, in lattice steps
 */
export function zoneAt(map, x, y, reach) {
  for (let z = 0; z < map.rings.length; z += 1) {
    const b = 4 * z;
    if (x < map.boxes[b] || y < map.boxes[b + 1] || x > map.boxes[b + 2] || y > map.boxes[b + 3]) continue;
    let inside = false;
    for (const ring of map.rings[z]) {
      if (within(ringPoints(map.arcs, ring), x, y)) inside = !inside;
    }
    if (inside) return z;
  }
  let best = -1;
  let nearest = reach * reach;
  map.anchors.forEach((anchor, z) => {
    if (!anchor || map.rings[z].length) return;
    const far = (anchor[0] - x) ** 2 + (anchor[1] - y) ** 2;
    if (far <= nearest) {
      nearest = far;
      best = z;
    }
  });
  return best;
}

/**
 * Whether a point lies inside a ring.
 * @param {number[]} points x, y, x, y, …
 * @param {number} x
 * @param {number} y
 */
export function within(points, x, y) {
  let inside = false;
  for (let k = 0, j = points.length - 2; k < points.length; j = k, k += 2) {
    const [ax, ay, bx, by] = [points[k], points[k + 1], points[j], points[j + 1]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

/**
 * Longitude and latitude of a point of the lattice (inverse of Lambert's equal-area plane).
 * @param {OutlinesData} plane
 * @param {number} x
 * @param {number} y
 * @returns {[number, number]}
 */
export function degrees(plane, x, y) {
  const east = plane.left + x * plane.metres;
  const north = plane.top - y * plane.metres;
  const far = Math.hypot(east, north);
  if (far === 0) return [plane.lon, plane.lat];
  const lat = (plane.lat * Math.PI) / 180;
  const c = 2 * Math.asin(Math.min(1, far / (2 * EARTH)));
  const sin = Math.cos(c) * Math.sin(lat) + (north * Math.sin(c) * Math.cos(lat)) / far;
  const turn = Math.atan2(
    east * Math.sin(c),
    far * Math.cos(lat) * Math.cos(c) - north * Math.sin(lat) * Math.sin(c),
  );
  const lon = plane.lon + (turn * 180) / Math.PI;
  const round = (/** @type {number} */ v) => Math.round(v * 1e6) / 1e6;
  return [round(((lon + 540) % 360) - 180), round((Math.asin(sin) * 180) / Math.PI)];
}
