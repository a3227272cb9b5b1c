import { normalQuantile, quantile } from "./estimate.js";
import { integers } from "./numbers.js";

/**
 * @typedef {{scale: number[], data: import("./numbers.js").Layer}} Rows
 * @typedef {{coverage: number, pairs: number, fields: number, level: number[], piece: number[],
 *   places: Rows, slots: Rows, chance: import("./numbers.js").Layer, strengths?: Rows,
 *   rhythms?: import("./numbers.js").Layer}} FactorsData
 * @typedef {{value: number, lower: number, upper: number}} Sum lower, upper: NaN where unknown
 */

const RHYTHM = 1 / 512;
const CHANCE_STEP = 0.25;
const CHANCE_LEAST = Math.log(1e-6);

/**
 * How errors of cells hang together: what a draw adds to the counts, in factors, and the chance
 * of every cell. A sum's interval comes from products of these alone.
 */
export class Factors {
  /**
   * @param {FactorsData} data
   * @param {number} zones
   * @param {number} slots
   * @param {Float32Array[]} tables places, slots, strengths, rhythms
   * @param {Float32Array} chance
   */
  constructor(data, zones, slots, [places, times, strengths, rhythms], chance) {
    this.data = data;
    this.zones = zones;
    this.slots = slots;
    this.places = places;
    this.times = times;
    this.strengths = strengths;
    this.rhythms = rhythms;
    this.chance = chance;
  }

  /**
   * Ends of the interval of every slot's total.
   * @param {Float64Array} counts
   * @returns {Float64Array[]} lower, upper
   */
  totals(counts) {
    const all = Array.from({ length: this.zones }, (_, z) => z);
    const found = [new Float64Array(this.slots), new Float64Array(this.slots)];
    const { pairs, fields } = this.data;
    const strength = new Float64Array(pairs * fields); // the same in every slot
    for (let row = 0; row < this.strengths.length; row += strength.length) {
      for (let k = 0; k < strength.length; k += 1) strength[k] += this.strengths[row + k];
    }
    for (let t = 0; t < this.slots; t += 1) {
      const { lower, upper } = this.ends(all, t, t, counts, strength);
      [found[0][t], found[1][t]] = [lower, upper];
    }
    return found;
  }

  /**
   * How sure the change of some zones between two slots is.
   * @param {number[]} chosen zones
   * @param {number} slot
   * @param {number} since
   * @param {Float64Array} counts of the release, zone by zone
   * @returns {{error: number, sd: number}} deviation without chance, and with it
   */
  change(chosen, slot, since, counts) {
    const { pairs, fields, level } = this.data;
    const apart = new Float64Array(pairs);
    const rhythm = new Float64Array(fields);
    for (let r = 0; r < fields; r += 1) rhythm[r] = this.rhythms[slot * fields + r] - this.rhythms[since * fields + r];
    let [now, then, chance] = [0, 0, 0];
    for (const z of chosen) {
      const [at, before] = [z * this.slots + slot, z * this.slots + since];
      const [a, b] = [counts[at] || 0, counts[before] || 0];
      now += a;
      then += b;
      chance += this.chance[at] + this.chance[before];
      for (let k = 0; k < pairs; k += 1) {
        let sum = (a - b) * this.places[z * pairs + k];
        const row = (z * pairs + k) * fields;
        for (let r = 0; r < fields; r += 1) sum += this.strengths[row + r] * rhythm[r];
        apart[k] += sum;
      }
    }
    let variance = 0;
    for (let k = 0; k < pairs; k += 1) {
      apart[k] += level[k] * (now - then) + now * this.times[slot * pairs + k] - then * this.times[since * pairs + k];
      variance += apart[k] ** 2 / pairs;
    }
    return { error: Math.sqrt(variance), sd: slot === since ? 0 : Math.sqrt(variance + chance) };
  }

  /**
   * Ends of the interval of a sum.
   * @param {number[]} chosen zones
   * @param {number} first slot
   * @param {number} last slot, part of it
   * @param {Float64Array} counts of the release, zone by zone
   * @param {Float64Array} [known] the strengths of these zones together
   * @returns {{lower: number, upper: number}}
   */
  ends(chosen, first, last, counts, known) {
    const { pairs, fields, level, piece, coverage } = this.data;
    const bySlot = new Float64Array(this.slots);
    const strength = known ?? new Float64Array(pairs * fields);
    const apart = new Float64Array(pairs);
    let [value, variance, weighed] = [0, 0, 0];
    for (const z of chosen) {
      let own = 0;
      for (let t = first; t <= last; t += 1) {
        const count = counts[z * this.slots + t];
        if (count === count) {
          own += count;
          bySlot[t] += count;
        }
        variance += this.chance[z * this.slots + t];
      }
      value += own;
      weighed += own * (piece.length > 1 ? piece[z] : piece[0]);
      for (let k = 0; k < pairs; k += 1) apart[k] += own * this.places[z * pairs + k];
      const row = z * strength.length;
      if (!known) for (let k = 0; k < strength.length; k += 1) strength[k] += this.strengths[row + k];
    }
    const rhythm = new Float64Array(fields);
    for (let t = first; t <= last; t += 1) {
      for (let k = 0; k < pairs; k += 1) apart[k] += bySlot[t] * this.times[t * pairs + k];
      for (let r = 0; r < fields; r += 1) rhythm[r] += this.rhythms[t * fields + r];
    }
    for (let k = 0; k < pairs; k += 1) {
      apart[k] += level[k] * value;
      for (let r = 0; r < fields; r += 1) apart[k] += strength[k * fields + r] * rhythm[r];
      variance += apart[k] ** 2 / pairs;
    }
    // No law of counts has the mean zero and a variance: nobody was found, and some may be.
    if (!(value > 1e-9)) return { lower: 0, upper: normalQuantile(0.5 + coverage / 2) * Math.sqrt(variance) };
    const size = weighed / value;
    return { lower: quantile(value, variance, size, 0.5 - coverage / 2), upper: quantile(value, variance, size, 0.5 + coverage / 2) };
  }
}

/**
 * @param {FactorsData} data
 * @param {number} zones
 * @param {number} slots
 */
export async function decodeFactors(data, zones, slots) {
  const { pairs, fields } = data;
  const [places, times, strengths, rhythms, code] = await Promise.all([
    rows(data.places, zones, pairs),
    rows(data.slots, slots, pairs),
    data.strengths ? byField(data.strengths, zones, pairs, fields) : new Float32Array(0),
    data.rhythms ? integers(data.rhythms, slots, fields).then((whole) => Float32Array.from(whole, (v) => v * RHYTHM)) : new Float32Array(0),
    integers(data.chance, zones, slots),
  ]);
  const known = Array.from({ length: 256 }, (_, v) => (v ? Math.exp(CHANCE_LEAST + CHANCE_STEP * (v - 1)) : 0));
  const chance = new Float32Array(code.length);
  for (let k = 0; k < code.length; k += 1) chance[k] = known[code[k]];
  return new Factors(data, zones, slots, [places, times, strengths, rhythms], chance);
}

/**
 * Strengths zone by zone, of numbers field by field, each zone in steps of its own.
 * @param {Rows} data
 * @param {number} zones
 * @param {number} pairs
 * @param {number} fields
 */
async function byField(data, zones, pairs, fields) {
  const whole = await integers(data.data, fields, zones * pairs);
  const found = new Float32Array(whole.length);
  for (let z = 0, k = 0; z < zones; z += 1) {
    const scale = 2 ** (data.scale[z] / 8);
    for (const end = k + pairs; k < end; k += 1) {
      for (let r = 0; r < fields; r += 1) found[k * fields + r] = whole[r * zones * pairs + k] * scale;
    }
  }
  return found;
}

/**
 * @param {Rows} data each row in steps of its own
 * @param {number} height
 * @param {number} width
 */
async function rows(data, height, width) {
  const whole = await integers(data.data, height, width);
  const found = new Float32Array(whole.length); // a loop: `from` calls a function for each, at three times the cost
  for (let row = 0, k = 0; row < height; row += 1) {
    const scale = 2 ** (data.scale[row] / 8);
    for (const end = k + width; k < end; k += 1) found[k] = whole[k] * scale;
  }
  return found;
}
