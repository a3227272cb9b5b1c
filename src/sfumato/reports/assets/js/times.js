import { fill } from "./format.js";

/**
 * @typedef {{tz: string, first: number, steps: [number, number][], lengths: [number, number][],
 *   changes: [number, number, string][]}} ClockData
 * @typedef {{weekday: number, day: number, month: number, year: number, time: string,
 *   offset: number, zone: string, hour: number}} Moment
 */

/** Local times of the slots, from the release's own table of offsets. */
export class Clock {
  /**
   * @param {ClockData} data
   * @param {import("./format.js").Words} words
   */
  constructor(data, words) {
    this.tz = data.tz;
    this.words = words;
    this.lengths = runs(data.lengths);
    this.starts = [data.first];
    for (const step of runs(data.steps)) this.starts.push(this.starts[this.starts.length - 1] + step);
    this.slots = this.starts.length;
    this.changes = data.changes;
    /** @type {Moment[]} */
    this.moments = this.starts.map((second, k) => this.moment(second, k));
    /** First slot of every local day. */
    this.days = this.moments
      .map((_, k) => k)
      .filter((k) => k === 0 || this.moments[k].day !== this.moments[k - 1].day);
  }

  /**
   * @param {number} second
   * @param {number} slot
   * @returns {Moment}
   */
  moment(second, slot) {
    let change = this.changes[0];
    for (const next of this.changes) if (next[0] <= slot) change = next;
    const date = new Date(1000 * (second + change[1]));
    const pad = (/** @type {number} */ n) => String(n).padStart(2, "0");
    return {
      weekday: (date.getUTCDay() + 6) % 7,
      day: date.getUTCDate(),
      month: date.getUTCMonth(),
      year: date.getUTCFullYear(),
      time: `${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}`,
      hour: date.getUTCHours(),
      offset: change[1],
      zone: change[2],
    };
  }

  /** @param {number} slot */
  day(slot) {
    const m = this.moments[slot];
    const { weekdays, months } = this.words.time;
    return fill(this.words.time.day, { weekday: weekdays[m.weekday], day: m.day, month: months[m.month], year: m.year });
  }

  /** @param {number} slot */
  shortDay(slot) {
    const m = this.moments[slot];
    return fill(this.words.time.short_day, { weekday: this.words.time.weekdays_short[m.weekday], day: m.day });
  }

  /** @param {number} slot */
  hours(slot) {
    if (this.lengths[slot] >= 86400) return this.words.time.all_day;
    const end = this.moment(this.starts[slot] + this.lengths[slot], slot + 1 < this.slots ? slot + 1 : slot);
    return `${this.moments[slot].time}–${end.time}`;
  }

  /** @param {number} slot name of the local time and its distance from UTC */
  zone(slot) {
    const { zone, offset } = this.moments[slot];
    const size = Math.abs(offset);
    const minutes = Math.floor((size % 3600) / 60);
    const far = `UTC${offset < 0 ? "−" : "+"}${Math.floor(size / 3600)}${minutes ? `:${String(minutes).padStart(2, "0")}` : ""}`;
    return zone === "UTC" || /^[+-]/.test(zone) ? far : `${zone}, ${far}`;
  }

  /** @param {number} slot */
  short(slot) {
    return this.lengths[slot] >= 86400 ? this.shortDay(slot) : `${this.shortDay(slot)}, ${this.moments[slot].time}`;
  }

  /** @param {number} slot when it ends; midnight belongs to the day before */
  until(slot) {
    if (this.lengths[slot] >= 86400) return this.shortDay(slot);
    const end = this.moment(this.starts[slot] + this.lengths[slot], slot + 1 < this.slots ? slot + 1 : slot);
    return `${this.shortDay(slot)}, ${end.time === "00:00" ? "24:00" : end.time}`;
  }

  /** @param {number} slot */
  iso(slot) {
    return this.isoText(this.starts[slot], slot);
  }

  /** @param {number} slot */
  isoEnd(slot) {
    const next = slot + 1 < this.slots ? slot + 1 : slot;
    return this.isoText(this.starts[slot] + this.lengths[slot], next);
  }

  /**
   * @param {number} second
   * @param {number} slot
   */
  isoText(second, slot) {
    const { offset } = this.moment(second, slot);
    const text = new Date(1000 * (second + offset)).toISOString().slice(0, 19);
    const size = Math.abs(offset) / 60;
    const pad = (/** @type {number} */ n) => String(Math.floor(n)).padStart(2, "0");
    return `${text}${offset < 0 ? "-" : "+"}${pad(size / 60)}:${pad(size % 60)}`;
  }

  /** The period as a short title, first and last local day. */
  period() {
    const [first, last] = [this.day(0), this.day(this.slots - 1)];
    return first === last ? first : `${first} – ${last}`;
  }
}

/**
 * @param {[number, number][]} pairs value and how often
 * @returns {number[]}
 */
function runs(pairs) {
  return pairs.flatMap(([value, times]) => new Array(times).fill(value));
}
