import { byId, make } from "./dom.js";
import { changeText, countText } from "./estimate.js";
import { fill } from "./format.js";
import { doubtful } from "./scene.js";

/**
 * @typedef {import("./model.js").Release} Release
 * @typedef {import("./model.js").Measure} Measure
 */

const SHOWN = 10;

/**
 * The busiest zones of the hour, or those that changed most, with bars and intervals.
 * @param {Release} release
 * @param {import("./format.js").Words} words
 * @param {{slot: number, pinned: number, measure: Measure, chosen: number}} state
 * @param {(zone: number) => void} pick
 */
export function drawRanking(release, words, state, pick) {
  const { figures } = release;
  const value = (/** @type {number} */ z) => release.value(z, state.slot, state.measure);
  const change = (/** @type {number} */ z) => value(z) - release.value(z, state.pinned, state.measure);
  const key = state.pinned < 0 ? value : (/** @type {number} */ z) => Math.abs(change(z));
  const known = Array.from({ length: release.zones }, (_, z) => z).filter((z) => Number.isFinite(key(z)));
  known.sort((a, b) => key(b) - key(a) || a - b);
  const top = known.slice(0, SHOWN);
  const most = Math.max(...top.map((z) => {
    const upper = release.cell(z, state.slot).upper / release.per(z, state.measure);
    return state.pinned < 0 && Number.isFinite(upper) ? upper : key(z);
  }), 1e-9);
  byId("ranking-title").textContent = state.pinned < 0 ? words.ranking.title : words.ranking.title_change;
  byId("ranking").replaceChildren(...top.map((z) => {
    const cell = release.cell(z, state.slot);
    const per = release.per(z, state.measure);
    const bar = make("span", { class: state.pinned >= 0 && change(z) < 0 ? "bar less" : "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0, (100 * key(z)) / most)}%`;
    const parts = [bar];
    if (state.pinned < 0 && Number.isFinite(cell.lower)) {
      const whisker = make("span", { class: "whisker", "aria-hidden": "true" });
      whisker.style.left = `${Math.max(0, (100 * cell.lower) / per / most)}%`;
      whisker.style.width = `${Math.max(0, (100 * (cell.upper - Math.max(0, cell.lower))) / per / most)}%`;
      parts.push(whisker);
    }
    const number = state.pinned < 0
      ? countText(figures, cell, per)
      : changeText(release.change(z, state.slot, state.pinned), words, per);
    const doubt = state.pinned < 0 ? release.doubted(z, state.slot) : doubtful(release.change(z, state.slot, state.pinned));
    const button = make("button", { type: "button", class: `${z === state.chosen ? "chosen" : ""}${doubt ? " doubt" : ""}`, title: doubt ? (state.pinned < 0 ? words.map.uncertain_here : words.map.uncertain_change) : false },
      make("span", { class: "rank-name", dir: "auto" }, release.map.names[z]), make("span", { class: "rank-value" }, number), make("span", { class: "track" }, ...parts));
    button.addEventListener("click", () => pick(z));
    return make("li", {}, button);
  }));
  byId("ranking-unit").textContent = state.measure === "count" ? words.measure.count_unit[release.facts.counting] ?? words.measure.count_unit.visits : words.measure.density_unit[release.facts.counting] ?? words.measure.density_unit.visits;
}

/**
 * Every zone of the hour as a table: the map for those who do not see it.
 * @param {Release} release
 * @param {import("./format.js").Words} words
 * @param {number} slot
 * @param {(zone: number) => void} pick
 */
export function drawTable(release, words, slot, pick) {
  const { figures, clock } = release;
  byId("table-caption").textContent = fill(words.table.caption, { day: clock.day(slot), hours: clock.hours(slot), zone: clock.zone(slot) });
  const rows = release.map.ids.map((id, z) => {
    const cell = release.cell(z, slot);
    const name = make("button", { type: "button", dir: "auto" }, release.map.names[z]);
    name.addEventListener("click", () => pick(z));
    const further = [...(release.medians ? [cell.median] : []), ...(release.intervals ? [cell.lower, cell.upper] : [])];
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", { dir: "auto" }, id), make("td", {}, figures.count(cell.count)),
      ...further.map((v) => make("td", {}, figures.count(v))), ...(release.uncertain ? [make("td", {}, release.doubted(z, slot) ? words.table.yes : "")] : []));
  });
  byId("table-uncertain").hidden = !release.uncertain;
  byId("table-median").hidden = !release.medians;
  for (const end of ["table-lower", "table-upper"]) byId(end).hidden = !release.intervals;
  byId("table-body").replaceChildren(...rows);
}
