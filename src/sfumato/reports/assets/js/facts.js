import { byId, make } from "./dom.js";
import { fill, numberOf } from "./format.js";

/**
 * The privacy label, the strip that stays in sight, the warnings and the citation.
 * @param {import("./model.js").Release} release
 * @param {import("./format.js").Words} words
 */
export function drawFacts(release, words) {
  const { facts, clock, figures } = release;
  byId("facts").replaceChildren(...facts.rows.map((/** @type {{term: string, value: string, note: string}} */ r) =>
    make("div", { class: r.value.length > 120 ? "fact long" : "fact" }, make("dt", {}, r.term), make("dd", {}, make("span", { class: "fact-value", dir: "auto" }, r.value), ...(r.note ? [make("span", { class: "fact-note" }, r.note)] : [])))));
  const chips = [
    facts.epsilon && [fill(words.label.loss_value, { epsilon: facts.epsilon, delta: facts.delta ?? "?" }), words.strip.epsilon],
    facts.unit && [facts.unit, words.strip.unit],
    [!release.intervals ? words.strip.interval_none : facts.coverage ? fill(words.strip.interval, { percent: facts.coverage }) : words.strip.interval_plain, words.strip.interval_title],
  ].filter(Boolean);
  byId("strip").replaceChildren(...chips.map(([text, title]) => make("span", { class: "chip", title }, text)));
  byId("as-of").textContent = facts.as_of ?? facts.last ?? "";
  byId("as-of").hidden = !(facts.as_of || facts.last);
  byId("warnings").replaceChildren(...facts.warnings.map((/** @type {string} */ w) => make("p", {}, w)));
  byId("warnings").hidden = !facts.warnings.length;
  list("caveats", facts.caveats);
  list("not-covered", facts.not_covered);
  byId("title").textContent = document.title = facts.name || words.page.untitled;
  const about = ["publisher", "licence", "contact"].filter((term) => facts.about[term]);
  byId("about").replaceChildren(...about.map((term) => make("span", { dir: "auto" }, ...named(words.about[term], facts.about[term]))));
  byId("about").hidden = !about.length;
  const unit = words.counting_unit[facts.counting] ?? words.counting_unit.visits;
  const period = facts.period ?? clock.period();
  const zones = numberOf(words.number_of.places, release.zones, figures);
  byId("subtitle").textContent = fill(facts.synthetic ? words.page.subtitle_synthetic : words.page.subtitle, { unit, zones, slots: numberOf(words.number_of.slots, release.slots, figures), period, tz: clock.tz });
  byId("cite-text").textContent = fill(words.cite.text, {
    dataset: facts.dataset || words.page.untitled, name: facts.name, year: facts.year || "n.d.", unit, zones, period,
    epsilon: facts.epsilon ?? "?", delta: facts.delta ?? "?", protects: facts.unit, version: facts.version, id: facts.id,
  });
  byId("precision").textContent = fill(facts.as_of ? words.page.precision_live : words.page.precision, { step: figures.count(figures.step) });
}

/**
 * A sentence with a name in it, which is a link where it is an address.
 * @param {string} template
 * @param {string} name
 * @returns {(Node | string)[]}
 */
function named(template, name) {
  const mail = /^[\w.+-]+@[\w.-]+\.\w+$/.test(name);
  if (!mail && !/^https?:\/\/[^\s]+$/.test(name)) return [fill(template, { name })];
  const [before, after] = template.split("{name}");
  return [before, make("a", { href: mail ? `mailto:${name}` : name, rel: "noopener noreferrer" }, name), after];
}

/**
 * @param {string} id
 * @param {string[]} items
 */
function list(id, items) {
  byId(id).replaceChildren(...items.map((item) => make("li", {}, item)));
  const box = byId(id).closest("section");
  if (box) box.hidden = !items.length;
}
