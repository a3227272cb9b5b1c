/**
 * Scales whose lightness rises or falls steadily, so that they read in grey and with every kind
 * of colour blindness: pale yellow over blue-green to indigo, and blue against orange.
 * Computed in OKLCH.
 */

/** @typedef {[number, number, number]} Triple lightness, chroma, hue in degrees */

/** @type {Triple[]} */
const PALE_TO_DEEP = [[0.965, 0.045, 105], [0.89, 0.095, 128], [0.78, 0.115, 165], [0.65, 0.115, 212], [0.52, 0.125, 248], [0.39, 0.135, 272], [0.27, 0.11, 285]];
/** @type {Triple[]} */
const DEEP_TO_PALE = [[0.29, 0.075, 285], [0.37, 0.115, 275], [0.48, 0.12, 252], [0.6, 0.11, 216], [0.72, 0.115, 170], [0.84, 0.125, 128], [0.95, 0.13, 102]];
/** @type {Record<string, {cold: Triple, even: Triple, warm: Triple}>} */
const SIDES = {
  light: { cold: [0.42, 0.13, 258], even: [0.965, 0.006, 90], warm: [0.5, 0.145, 48] },
  dark: { cold: [0.74, 0.12, 240], even: [0.31, 0.008, 270], warm: [0.78, 0.14, 66] },
};

/** How far the colour of what is uncertain is mixed with the ground. */
export const FADE = 0.72;

/**
 * @param {number} size
 * @param {boolean} dark
 * @returns {string[]} from few to many
 */
export function sequential(size, dark) {
  const stops = dark ? DEEP_TO_PALE : PALE_TO_DEEP;
  return spread(size).map((t) => css(between(stops, t)));
}

/**
 * @param {number} size odd
 * @param {boolean} dark
 * @returns {string[]} from much less to much more
 */
export function diverging(size, dark) {
  const { cold, even, warm } = SIDES[dark ? "dark" : "light"];
  return spread(size).map((t) => css(between([cold, even, warm], t)));
}

/** @param {number} size */
function spread(size) {
  return Array.from({ length: size }, (_, k) => (size > 1 ? k / (size - 1) : 0.5));
}

/**
 * @param {Triple[]} stops
 * @param {number} t
 * @returns {[number, number, number]} OKLab
 */
function between(stops, t) {
  const at = t * (stops.length - 1);
  const k = Math.min(Math.floor(at), stops.length - 2);
  const [a, b] = [lab(stops[k]), lab(stops[k + 1])];
  const share = at - k;
  return [mix(a[0], b[0], share), mix(a[1], b[1], share), mix(a[2], b[2], share)];
}

/**
 * @param {number} a
 * @param {number} b
 * @param {number} share
 */
function mix(a, b, share) {
  return a + share * (b - a);
}

/**
 * @param {Triple} colour
 * @returns {[number, number, number]}
 */
function lab([lightness, chroma, hue]) {
  const turn = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(turn), chroma * Math.sin(turn)];
}

/**
 * @param {[number, number, number]} colour OKLab
 * @returns {string}
 */
function css([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const hex = linear.map((v) => {
    const light = Math.min(1, Math.max(0, v));
    const gamma = light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055;
    return Math.round(255 * gamma).toString(16).padStart(2, "0");
  });
  return `#${hex.join("")}`;
}

/**
 * @param {string} colour #rrggbb
 * @returns {[number, number, number]}
 */
export function rgb(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/**
 * One colour mixed with another.
 * @param {string} colour #rrggbb
 * @param {string} ground #rrggbb
 * @param {number} share of the ground
 */
export function blend(colour, ground, share) {
  const [a, b] = [rgb(colour), rgb(ground)];
  return `#${a.map((v, k) => Math.round(v + share * (b[k] - v)).toString(16).padStart(2, "0")).join("")}`;
}

/**
 * Lines that are seen on a colour, whatever it is.
 * @param {string} colour #rrggbb
 */
export function inkOn(colour) {
  return luminance(colour) > 0.18 ? "#14161e" : "#f4f5fa";
}

/**
 * Relative luminance, for checking that a scale rises steadily.
 * @param {string} colour
 */
export function luminance(colour) {
  const [r, g, b] = rgb(colour).map((v) => {
    const s = v / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
