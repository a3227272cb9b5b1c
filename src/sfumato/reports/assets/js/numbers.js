import { inflate } from "./bytes.js";

/**
 * @typedef {{delta: boolean, bytes: number, data: string}} Layer
 * @typedef {{step: number, shape: [number, number], floor: boolean, count: Layer, up: Layer | null,
 *   low: Layer | null, median?: Layer, missing: number[], no_interval: number[]}} NumbersData
 * @typedef {{zones: number, slots: number, decimals: number, intervals: boolean, medians: boolean, count: Float64Array,
 *   median: Float64Array, lower: Float64Array, upper: Float64Array}} Numbers intervals, medians: whether any are stated
 */

/**
 * Counts, medians and intervals, zone by zone; NaN where a number is missing.
 * @param {NumbersData} data
 * @returns {Promise<Numbers>}
 */
export async function decodeNumbers(data) {
  const [zones, slots] = data.shape;
  const per = Math.round(1 / data.step);
  const size = zones * slots;
  const [whole, up, low, apart] = await Promise.all(
    [data.count, data.up, data.low, data.median].map((layer) => (layer ? integers(layer, zones, slots) : new Int32Array(0))),
  );
  const intervals = data.up !== null;
  const count = new Float64Array(size);
  const median = new Float64Array(size);
  const lower = new Float64Array(size);
  const upper = new Float64Array(size);
  for (let k = 0; k < size; k += 1) {
    count[k] = whole[k] / per;
    median[k] = (whole[k] + apart[k]) / per; // without medians NaN
    const mirrored = whole[k] - up[k]; // without intervals NaN, and so are both ends
    lower[k] = (low[k] + (data.floor ? Math.max(mirrored, 0) : mirrored)) / per;
    upper[k] = (whole[k] + up[k]) / per;
  }
  for (const k of data.missing) count[k] = median[k] = NaN;
  for (const k of data.no_interval) lower[k] = upper[k] = NaN;
  return { zones, slots, decimals: Math.round(Math.log10(per)), intervals, medians: data.median !== undefined, count, median, lower, upper };
}

/**
 * Whole numbers, row by row.
 * @param {Layer} layer
 * @param {number} zones
 * @param {number} slots
 * @returns {Promise<Int32Array>}
 */
export async function integers(layer, zones, slots) {
  const bytes = await inflate(layer.data);
  const size = zones * slots;
  if (bytes.length !== layer.bytes * size) throw new Error("the numbers are damaged");
  const out = new Int32Array(size);
  for (let plane = 0; plane < layer.bytes; plane += 1) {
    const start = plane * size;
    for (let k = 0; k < size; k += 1) out[k] |= bytes[start + k] << (8 * plane);
  }
  for (let k = 0; k < size; k += 1) out[k] = (out[k] >>> 1) ^ -(out[k] & 1);
  if (layer.delta) {
    for (let z = 0; z < zones; z += 1) {
      const row = z * slots;
      for (let t = 1; t < slots; t += 1) out[row + t] += out[row + t - 1];
    }
  }
  return out;
}
