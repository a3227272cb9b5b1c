import { fill } from "./format.js";

/**
 * Quantiles of counts with a known mean and variance, by the same laws as the library: a negative
 * binomial in pieces of the size in which counts come, read halfway through its steps, and a gamma
 * from a few dozen pieces on.
 */

const MANY = 60;
const LEAST_PIECE = 0.02;
const SEEN = 0.8;
const LOPSIDED = 1.4;
const SMOOTH = 200; // shape from which the cube root of a gamma is normal to five digits

/**
 * @param {number} mean
 * @param {number} variance
 * @param {number} piece
 * @param {number} level
 */
export function quantile(mean, variance, piece, level) {
  if (!(mean > 1e-9)) return 0;
  const size = Math.max(piece, LEAST_PIECE);
  const [pieces, spread] = [mean / size, variance / size ** 2];
  if (pieces < MANY && spread > SEEN * pieces) return size * steps(pieces, spread, level);
  const safe = Math.max(variance, 1e-12 * mean ** 2);
  return (gammaQuantile(mean ** 2 / safe, level) * safe) / mean;
}

/**
 * Of a negative binomial.
 * @param {number} pieces its mean
 * @param {number} spread its variance
 * @param {number} level
 */
function steps(pieces, spread, level) {
  const chance = Math.min(Math.max(pieces / spread, 1e-9), 1 - 1e-6);
  const number = (pieces * chance) / (1 - chance);
  let here = Math.exp(number * Math.log(chance));
  let [at, below, sum] = [0, 0, here];
  while (sum < level && at < 1e6) {
    here *= ((at + number) / (at + 1)) * (1 - chance);
    at += 1;
    below = sum;
    sum += here;
  }
  // A bound lies on a whole number: whichever is nearer to the level.
  const middle = (below + sum) / 2;
  return Math.max(level < 0.5 ? at + (middle < level ? 1 : 0) : at - (middle >= level ? 1 : 0), 0);
}

/**
 * Of a gamma of scale one.
 * @param {number} shape
 * @param {number} level
 */
export function gammaQuantile(shape, level) {
  const guess = shape * Math.max(1 - 1 / (9 * shape) + normalQuantile(level) / (3 * Math.sqrt(shape)), 0) ** 3;
  if (shape > SMOOTH) return guess;
  let [low, high] = [0, Math.max(guess, shape, 1)];
  while (gammaBelow(shape, high) < level) high *= 2;
  for (let k = 0; k < 80 && high - low > 1e-12 * high; k += 1) {
    const middle = (low + high) / 2;
    if (gammaBelow(shape, middle) < level) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/**
 * Probability of at most x: a series below the mean, a continued fraction above it.
 * @param {number} shape
 * @param {number} x
 */
function gammaBelow(shape, x) {
  if (x <= 0) return 0;
  const front = Math.exp(shape * Math.log(x) - x - logGamma(shape));
  if (x < shape + 1) {
    let [term, sum] = [1 / shape, 1 / shape];
    for (let k = 1; k < 10000 && term > sum * 1e-15; k += 1) {
      term *= x / (shape + k);
      sum += term;
    }
    return front * sum;
  }
  let b = x + 1 - shape;
  let c = 1e300;
  let d = 1 / b;
  let product = d;
  for (let k = 1; k < 10000; k += 1) {
    const a = k * (shape - k);
    b += 2;
    d = 1 / (a * d + b);
    c = b + a / c;
    product *= c * d;
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return 1 - front * product;
}

/** @param {number} x Stirling's series, after a few steps up */
function logGamma(x) {
  let shift = 0;
  let z = x;
  while (z < 12) {
    shift += Math.log(z);
    z += 1;
  }
  const w = 1 / (z * z);
  const series = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w / 1680))) / z;
  return (z - 0.5) * Math.log(z) - z + Math.log(2 * Math.PI) / 2 + series - shift;
}

/** @param {number} level by bisection of a series for the area, which is exact enough and short */
export function normalQuantile(level) {
  let [low, high] = [-9, 9];
  for (let k = 0; k < 60; k += 1) {
    const middle = (low + high) / 2;
    if (normalBelow(middle) < level) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** @param {number} x */
function normalBelow(x) {
  const half = gammaBelow(0.5, (x * x) / 2) / 2;
  return x < 0 ? 0.5 - half : 0.5 + half;
}

/**
 * A sum in words: `12,340 ± 410`, rounded to what is known of it; by its ends where the interval
 * is lopsided.
 * @param {import("./factors.js").Sum} sum
 * @param {import("./format.js").Words} words
 */
export function estimateText({ value, lower, upper }, words) {
  const format = (/** @type {number} */ v, /** @type {number} */ places) => {
    const unit = 10 ** places;
    const digits = Math.min(Math.max(places, 0), 20);
    const rounded = places < 0 ? Math.round(v * unit) / unit : Number(v.toFixed(digits));
    return new Intl.NumberFormat(words.language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(rounded).replace(/^-/, "−");
  };
  const plain = (/** @type {number} */ v) => (Math.abs(v) >= 100 ? format(v, 0) : new Intl.NumberFormat(words.language, { maximumSignificantDigits: 3 }).format(v));
  const half = (upper - lower) / 2;
  if (!Number.isFinite(half)) return plain(value);
  // A mean of a half may well be nobody, and is not a half for sure.
  if (!(half > 0)) return lower === value ? `${plain(value)} ± 0` : `${plain(value)} ${fill(words.map.from_to, { lower: plain(lower), upper: plain(upper) })}`;
  const places = 1 - Math.floor(Math.log10(half));
  const [short, long] = [value - lower, upper - value].sort((a, b) => a - b);
  if (long > LOPSIDED * Math.max(short, 0)) {
    return `${format(value, places)} ${fill(words.map.from_to, { lower: format(lower, places), upper: format(upper, places) })}`;
  }
  return `${format(value, places)} ± ${format(half, places)}`;
}

/**
 * A count of the table in words, rounded to what is known of it; a place's own, or per km².
 * @param {import("./format.js").Figures} figures
 * @param {import("./model.js").Cell} cell
 * @param {number} [per] what it is divided by
 */
export function countText(figures, { count, lower, upper }, per = 1) {
  const plain = per === 1 ? figures.count(count) : figures.about(count / per);
  if (!Number.isFinite(count) || !figures.intervals) return plain;
  if (!Number.isFinite(lower) || !Number.isFinite(upper)) return `${plain} ${figures.words.map.no_interval}`;
  // Ends that round to the count are not the count.
  if (lower === upper) return `${plain} ± < ${figures.about(figures.step / per)}`;
  return estimateText({ value: count / per, lower: lower / per, upper: upper / per }, figures.words);
}

/**
 * A change with what it may be off by, rounded to what is known of it.
 * @param {{value: number, half: number}} change
 * @param {import("./format.js").Words} words
 * @param {number} [per] what both are divided by
 */
export function changeText({ value, half }, words, per = 1) {
  const [size, give] = [value / per, half / per];
  return `${size < 0 ? "" : "+"}${estimateText({ value: size, lower: size - give, upper: size + give }, words)}`;
}
