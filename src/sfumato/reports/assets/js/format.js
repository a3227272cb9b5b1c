/** @typedef {Record<string, any>} Words every text of the page, by section and key */

/**
 * A sentence with its {gaps} filled.
 * @param {string} template
 * @param {Record<string, string | number>} values
 */
export function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (whole, key) => (key in values ? String(values[key]) : whole));
}

/**
 * So many things, in words: 1 zone, 12 zones.
 * @param {string[]} forms for one, and for any other number
 * @param {number} n
 * @param {Figures} figures
 */
export function numberOf(forms, n, figures) {
  return fill(forms[n === 1 ? 0 : 1], { n: figures.whole.format(n) });
}

/** Numbers as the reader's language writes them. */
export class Figures {
  /**
   * @param {string} language
   * @param {number} decimals of the release's numbers
   * @param {Words} words
   * @param {boolean} [intervals] whether the release states any
   */
  constructor(language, decimals, words, intervals = true) {
    this.words = words;
    this.intervals = intervals;
    this.exact = new Intl.NumberFormat(language, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    this.rough = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
    this.whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
    this.step = 10 ** -decimals;
  }

  /** @param {number} value a count as the table has it */
  count(value) {
    return Number.isFinite(value) ? minus(this.exact.format(value)) : this.words.map.missing;
  }

  /** @param {number} value a derived number */
  about(value) {
    if (!Number.isFinite(value)) return this.words.map.missing;
    return minus(Math.abs(value) >= 1000 ? this.whole.format(value) : this.rough.format(value));
  }

  /**
   * The interval beside a count: ± where it is symmetric, both ends where it is not.
   * @param {number} count
   * @param {number} lower
   * @param {number} upper
   * @param {(value: number) => string} [show]
   * @param {number} [per] what the three were divided by
   */
  interval(count, lower, upper, show = (v) => this.count(v), per = 1) {
    if (!this.intervals) return "";
    if (!Number.isFinite(lower) || !Number.isFinite(upper)) return this.words.map.no_interval;
    const [down, up] = [count - lower, upper - count];
    const even = Math.abs(up - down) <= (2.001 * this.step) / per; // three roundings apart
    if (lower === upper) return `± < ${this.about(this.step / per)}`;
    if (even && down >= 0) return `± ${show(Math.max(up, down))}`;
    return fill(this.words.map.from_to, { lower: show(lower), upper: show(upper) });
  }
}

/** @param {string} text with the true minus sign */
function minus(text) {
  return text.replace(/^-/, "−");
}

/**
 * Letters without case and accents, for searching.
 * @param {string} text
 */
export function plain(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}
