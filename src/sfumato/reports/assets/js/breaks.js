const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];
const SPREAD = [0.4, 0.7, 0.92];

/**
 * The nearest number that reads well.
 * @param {number} value
 */
export function round(value) {
  if (!(value > 0)) return 0;
  const unit = 10 ** Math.floor(Math.log10(value));
  const digit = value / unit;
  const best = ROUND.reduce((a, b) => (Math.abs(b - digit) < Math.abs(a - digit) ? b : a));
  return Number((best * unit).toPrecision(3));
}

/**
 * Bounds symmetric about zero for differences.
 * @param {ArrayLike<number>} values
 * @returns {number[]}
 */
export function evenBreaks(values) {
  const sorted = sample(values, Math.abs);
  const up = rising(SPREAD.map((share) => round(quantile(sorted, share))));
  return [...up.map((v) => -v).reverse(), ...up];
}

/**
 * The class of a value: how many bounds it reaches.
 * @param {number[]} breaks
 * @param {number} value
 * @returns {number} -1 where the value is missing
 */
export function classOf(breaks, value) {
  if (!(value === value)) return -1;
  let k = 0;
  while (k < breaks.length && value >= breaks[k]) k += 1;
  return k;
}

/**
 * Ticks of an axis from zero or below up to at least `top`.
 * @param {number} bottom
 * @param {number} top
 * @param {number} wanted
 * @returns {number[]}
 */
export function ticks(bottom, top, wanted) {
  const rough = (top - bottom || 1) / wanted;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= rough * 0.999) ?? unit;
  const out = [];
  for (let k = Math.floor(bottom / step + 1e-9); k * step <= top + step * 0.001; k += 1) out.push(Number((k * step).toPrecision(12)));
  return out;
}

/**
 * @param {number[]} sorted
 * @param {number} share
 */
export function quantile(sorted, share) {
  if (!sorted.length) return NaN;
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

/**
 * @param {ArrayLike<number>} values
 * @param {(v: number) => number} map
 */
function sample(values, map) {
  const stride = Math.max(1, Math.floor(values.length / 20011));
  const kept = [];
  for (let k = 0; k < values.length; k += stride) if (values[k] === values[k]) kept.push(map(values[k]));
  return kept.sort((a, b) => a - b);
}

/** @param {number[]} values */
function rising(values) {
  return values.filter((v, k) => v > 0 && values.indexOf(v) === k && values.slice(0, k).every((w) => w < v));
}
