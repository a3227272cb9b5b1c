import { byId, make } from "./dom.js";
import { fill, numberOf } from "./format.js";

/**
 * @typedef {{attack: string, contender: string, measure: string, reached: number, guessing: number,
 *   bound: number | null, note: string}} Attack
 * @typedef {{label: string, note: string, error: {zone: number[], mean: number}, overall: Record<string, number>}} Judged
 */

const WORST = 25;

/**
 * Every release in a row, its figures in columns.
 * @param {Judged[]} contenders
 * @param {number} at
 * @param {import("./format.js").Words} words
 * @param {import("./format.js").Figures} figures
 * @param {(k: number) => void} judge
 */
export function summaryRows(contenders, at, words, figures, judge) {
  const names = [...new Set(contenders.flatMap((c) => Object.keys(c.overall)))].sort();
  if (!names.includes("mre")) names.unshift("mre");
  byId("summary-head").replaceChildren(make("tr", {}, make("th", { scope: "col" }, words.internal.name), ...names.map((n) => make("th", { scope: "col" }, words.internal.overall[n] ?? n))));
  byId("summary").replaceChildren(...contenders.map((c, k) => {
    const pick = make("button", { type: "button" }, c.label);
    pick.addEventListener("click", () => judge(k));
    const cells = names.map((n) => {
      const value = c.overall[n] ?? (n === "mre" ? c.error.mean : NaN);
      return make("td", {}, Number.isFinite(value) ? figures.about(value) : "–");
    });
    return make("tr", { class: k === at ? "judged" : "" }, make("th", { scope: "row" }, pick, ...(c.note ? [make("div", { class: "muted" }, c.note)] : [])), ...cells);
  }));
}

/**
 * @param {Judged} one
 * @param {number} bar
 * @param {import("./model.js").Release} truth
 * @param {import("./format.js").Words} words
 * @param {(zone: number) => void} pick
 */
export function failRows(one, bar, truth, words, pick) {
  const failed = one.error.zone.map((error, zone) => ({ error, zone })).filter((f) => f.error > bar).sort((a, b) => b.error - a.error);
  const template = failed.length ? words.internal.fails_note : words.internal.fails_none;
  byId("fails-note").textContent = fill(template, { n: failed.length, zones: numberOf(words.number_of.places, truth.zones, truth.figures), bar: truth.figures.about(bar), name: one.label });
  byId("fails").replaceChildren(...failed.slice(0, WORST).map(({ error, zone }) => {
    const name = make("button", { type: "button", dir: "auto" }, truth.map.names[zone]);
    name.addEventListener("click", () => pick(zone));
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", { dir: "auto" }, truth.map.ids[zone]),
      make("td", {}, truth.figures.about(truth.total(zone) / truth.slots)), make("td", {}, truth.figures.about(error)));
  }));
}

/**
 * What attacks reached, between guessing and what the guarantee allows.
 * @param {Attack[]} attacks
 * @param {import("./format.js").Words} words
 * @param {import("./format.js").Figures} figures
 */
export function attackRows(attacks, words, figures) {
  byId("attacks-box").hidden = !attacks.length;
  byId("attacks").replaceChildren(...attacks.map((a) => {
    const most = Math.max(1, a.reached, a.guessing, a.bound ?? 0);
    const gauge = make("div", { class: "gauge", "aria-hidden": "true" });
    const put = (/** @type {string} */ kind, /** @type {number} */ value) => {
      const mark = make("span", { class: kind });
      if (kind === "bar") mark.style.width = `${(100 * value) / most}%`;
      else mark.style.left = `${(100 * value) / most}%`;
      gauge.append(mark);
    };
    put("bar", a.reached);
    put("line", a.guessing);
    if (a.bound !== null) put("diamond", a.bound);
    const about = (/** @type {number | null} */ v) => (v === null ? "–" : figures.about(v));
    return make("tr", {}, make("th", { scope: "row" }, a.attack, make("div", { class: "muted" }, [a.measure, a.note].filter(Boolean).join("; "))),
      make("td", {}, a.contender), make("td", {}, about(a.reached)), make("td", {}, about(a.guessing)), make("td", {}, about(a.bound)), make("td", {}, gauge));
  }));
}
