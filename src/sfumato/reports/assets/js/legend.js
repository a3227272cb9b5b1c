import { make } from "./dom.js";

/**
 * The legend as text and swatches, one row for a class, busiest first.
 * @param {HTMLElement} box
 * @param {{title: string, unit: string, breaks: number[], colours: string[], even: boolean,
 *   format: (v: number) => string, one: string, marked: string, faded?: boolean, missing: string}} key one: what a single class is called
 */
export function drawLegend(box, key) {
  const { breaks, colours, format } = key;
  const rows = colours.map((colour, k) => {
    const low = k > 0 ? breaks[k - 1] : null;
    const high = k < breaks.length ? breaks[k] : null;
    const sign = (/** @type {number} */ v) => (key.even && v > 0 ? `+${format(v)}` : format(v));
    let text = key.one;
    if (low === null && high !== null) text = `< ${sign(high)}`;
    else if (low !== null && high === null) text = `≥ ${sign(low)}`;
    else if (low !== null && high !== null) text = key.even && low < 0 && high > 0 ? `${sign(low)} … ${sign(high)}` : `${sign(low)} – ${sign(high)}`;
    return row(colour, text, "");
  });
  rows.reverse();
  if (key.marked) rows.push(row("", key.marked, key.faded ? "marked faded" : "marked"));
  if (key.missing) rows.push(row("", key.missing, "missing"));
  box.replaceChildren(make("div", { class: "legend-title" }, key.title), make("div", { class: "legend-unit" }, key.unit), make("ul", {}, ...rows));
}

/**
 * @param {string} colour
 * @param {string} text
 * @param {string} kind
 */
function row(colour, text, kind) {
  const swatch = make("span", { class: `swatch ${kind}`, "aria-hidden": "true" });
  if (colour) swatch.style.backgroundColor = colour;
  return make("li", { class: kind ? "wide" : "" }, swatch, make("span", {}, text));
}
