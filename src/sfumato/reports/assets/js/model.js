import { inflate } from "./bytes.js";
import { normalQuantile } from "./estimate.js";
import { Figures, plain } from "./format.js";
import { decodeFactors } from "./factors.js";
import { decodeNumbers } from "./numbers.js";
import { decodeOutlines } from "./outlines.js";
import { Clock } from "./times.js";

/**
 * @typedef {import("./format.js").Words} Words
 * @typedef {"density" | "count"} Measure
 * @typedef {{ids: string[], names: string[], districts: string[],
 *   outlines: import("./outlines.js").OutlinesData | null}} MapData
 * @typedef {{map: number, clock: import("./times.js").ClockData,
 *   numbers: import("./numbers.js").NumbersData, city: number[],
 *   city_ends?: number[][], uncertain?: string, sums?: import("./factors.js").FactorsData, facts: Record<string, any>}} ReleaseData
 * @typedef {{words: Words, maps: MapData[], releases: ReleaseData[], bounds: Record<string, number[]>}} PageData
 * @typedef {{value: number, half: number, error: number}} Change half: of its interval; NaN where unknown
 * @typedef {{count: number, median: number, lower: number, upper: number}} Cell
 */

/** One release: its places, its hours, its numbers, its statement. */
export class Release {
  /**
   * @param {ReleaseData} data
   * @param {MapData} map
   * @param {import("./outlines.js").Outlines | null} outlines
   * @param {import("./numbers.js").Numbers} numbers
   * @param {import("./factors.js").Factors | null} factors how errors hang together, where it is known
   * @param {Uint8Array | null} uncertain a bit for each number, zone by zone
   * @param {Words} words
   */
  constructor(data, map, outlines, numbers, factors, uncertain, words) {
    this.factors = factors;
    this.uncertain = uncertain;
    this.map = map;
    this.outlines = outlines;
    this.numbers = numbers;
    this.clock = new Clock(data.clock, words);
    this.city = Float64Array.from(data.city);
    /** Ends of the interval of each hour's total, where they are stated. */
    this.cityEnds = data.city_ends ? data.city_ends.map((ends) => Float64Array.from(ends, (v) => v ?? NaN)) : (factors?.totals(numbers.count) ?? null);
    this.facts = data.facts;
    this.zones = numbers.zones;
    this.slots = numbers.slots;
    this.intervals = numbers.intervals;
    this.medians = numbers.medians;
    this.figures = new Figures(words.language, numbers.decimals, words, numbers.intervals);
    /** Deviations that an interval reaches to either side. */
    this.reach = normalQuantile(0.5 + (factors?.data.coverage ?? Number(data.facts.coverage ?? 0) / 100) / 2);
    this.hasAreas = !!outlines && outlines.km2.some((a) => a > 0);
  }

  /**
   * @param {number} zone
   * @param {number} slot
   * @returns {Cell}
   */
  cell(zone, slot) {
    const k = zone * this.slots + slot;
    const { count, median, lower, upper } = this.numbers;
    return { count: count[k], median: median[k], lower: lower[k], upper: upper[k] };
  }

  /**
   * Whether the estimation error of a number, chance left out, exceeds half of it.
   * @param {number} zone
   * @param {number} slot
   */
  doubted(zone, slot) {
    const k = zone * this.slots + slot;
    return !!this.uncertain && (this.uncertain[k >> 3] & (128 >> (k & 7))) !== 0;
  }

  /**
   * What changed between two slots, and how sure that is: from how errors hang together, or as if
   * both slots erred by themselves.
   * @param {number} zone or -1 for all together
   * @param {number} slot
   * @param {number} since
   * @returns {Change}
   */
  change(zone, slot, since) {
    const all = zone < 0;
    const value = all ? this.city[slot] - this.city[since] : this.cell(zone, slot).count - this.cell(zone, since).count;
    if (this.factors) {
      const chosen = all ? Array.from({ length: this.zones }, (_, k) => k) : [zone];
      const { error, sd } = this.factors.change(chosen, slot, since, this.numbers.count);
      return { value, half: this.reach * sd, error };
    }
    const [now, then] = [slot, since].map((t) => {
      const { count, lower, upper } = all ? { count: this.city[t], lower: this.cityEnds?.[0][t] ?? NaN, upper: this.cityEnds?.[1][t] ?? NaN } : this.cell(zone, t);
      return { half: (upper - lower) / 2, chance: Math.max(count, 0) };
    });
    const half = slot === since ? 0 : Math.hypot(now.half, then.half);
    return { value, half, error: Math.sqrt(Math.max((half / this.reach) ** 2 - now.chance - then.chance, 0)) };
  }

  /**
   * What a count is divided by for a measure.
   * @param {number} zone
   * @param {Measure} measure
   */
  per(zone, measure) {
    if (measure === "count" || !this.outlines) return 1;
    return this.outlines.km2[zone] || NaN;
  }

  /**
   * @param {number} zone
   * @param {number} slot
   * @param {Measure} measure
   */
  value(zone, slot, measure) {
    return this.numbers.count[zone * this.slots + slot] / this.per(zone, measure);
  }

  /**
   * @param {number} zone
   * @param {"count" | "lower" | "upper"} what
   */
  row(zone, what) {
    return this.numbers[what].subarray(zone * this.slots, (zone + 1) * this.slots);
  }

  /** @param {number} zone */
  total(zone) {
    return this.row(zone, "count").reduce((sum, v) => (v === v ? sum + v : sum), 0);
  }

  /**
   * All counts of some zones from one slot to another. A single count keeps its printed interval.
   * @param {number[]} chosen
   * @param {number} first
   * @param {number} last part of it
   * @returns {import("./factors.js").Sum}
   */
  sum(chosen, first, last) {
    let value = 0;
    for (const z of chosen) {
      const row = this.row(z, "count");
      for (let t = first; t <= last; t += 1) if (row[t] === row[t]) value += row[t];
    }
    if (first === last && chosen.length === 1) {
      const { lower, upper } = this.cell(chosen[0], first);
      if (lower === lower) return { value, lower, upper };
    }
    return { value, ...(this.factors?.ends(chosen, first, last, this.numbers.count) ?? { lower: NaN, upper: NaN }) };
  }

  /** @param {number} slot */
  busiest(slot) {
    let best = -1;
    for (let z = 0; z < this.zones; z += 1) {
      const v = this.cell(z, slot).count;
      if (v === v && (best < 0 || v > this.cell(best, slot).count)) best = z;
    }
    return best;
  }

  /** @param {number} zone the zone's name with its id, where the two differ */
  title(zone) {
    const [name, id] = [this.map.names[zone], this.map.ids[zone]];
    return name === id ? name : `${name} (${id})`;
  }

  /**
   * Zones whose name, id or district begins with, or contains, the text.
   * @param {string} text
   * @param {number} most
   */
  search(text, most) {
    const wanted = plain(text.trim());
    if (!wanted) return [];
    const { ids, names, districts } = this.map;
    const ranked = ids.map((id, z) => {
      const [name, key, district] = [plain(names[z]), plain(id), plain(districts[z])];
      const rank = name === wanted || key === wanted ? 0 : name.startsWith(wanted) ? 1 : key.startsWith(wanted) ? 2 : name.includes(wanted) ? 3 : key.includes(wanted) || district.includes(wanted) ? 4 : 9;
      return { z, rank };
    });
    return ranked.filter((r) => r.rank < 9).sort((a, b) => a.rank - b.rank || a.z - b.z).slice(0, most).map((r) => r.z);
  }
}

/**
 * The mean of the same weekday and time in all releases with this map; with a single week, of
 * the same kind of day (Monday to Friday, or the weekend).
 * @param {Release} release
 * @param {Release[]} all
 * @param {number} zone
 * @returns {{values: Float64Array, by: "weekday" | "kind"}}
 */
export function typical(release, all, zone) {
  const peers = all.filter((r) => r.map === release.map);
  const seen = new Array(7).fill(0);
  for (const r of peers) for (const k of r.clock.days) seen[r.clock.moments[k].weekday] += 1;
  const own = release.clock.days.map((k) => seen[release.clock.moments[k].weekday]);
  const by = Math.min(...own) >= 2 ? "weekday" : "kind";
  const key = (/** @type {import("./times.js").Moment} */ m) =>
    `${by === "weekday" ? m.weekday : m.weekday > 4 ? "end" : "work"} ${m.time}`;
  /** @type {Map<string, [number, number]>} */
  const sums = new Map();
  for (const r of peers) {
    r.clock.moments.forEach((m, t) => {
      const v = r.cell(zone, t).count;
      if (!(v === v)) return;
      const entry = sums.get(key(m)) ?? [0, 0];
      entry[0] += v;
      entry[1] += 1;
      sums.set(key(m), entry);
    });
  }
  const values = release.clock.moments.map((m) => {
    const entry = sums.get(key(m));
    return entry ? entry[0] / entry[1] : NaN;
  });
  return { values: Float64Array.from(values), by };
}

/**
 * The city's rhythm at the size of a zone: the same mean, the city's shape.
 * @param {Release} release
 * @param {number} zone
 */
export function cityLike(release, zone) {
  const all = release.city.reduce((a, b) => a + b, 0);
  const scale = all > 0 ? release.total(zone) / all : 0;
  return release.city.map((v) => v * scale);
}

/**
 * @param {PageData} data
 * @returns {Promise<Release[]>}
 */
export async function loadReleases(data) {
  const outlines = await Promise.all(data.maps.map((m) => (m.outlines ? decodeOutlines(m.outlines) : null)));
  return Promise.all(
    data.releases.map(async (r) => {
      const [zones, slots] = r.numbers.shape;
      const [numbers, factors, uncertain] = await Promise.all([
        decodeNumbers(r.numbers), r.sums ? decodeFactors(r.sums, zones, slots) : null, r.uncertain ? inflate(r.uncertain) : null,
      ]);
      return new Release(r, data.maps[r.map], outlines[r.map], numbers, factors, uncertain, data.words);
    }),
  );
}
