// The site's own search, in node: Sphinx's scripts and the site's ranking, with just enough of a page.
// node search.js SITE, queries as a JSON list on standard input; prints the pages of each, best first.
const fs = require("fs"), path = require("path"), vm = require("vm");
const site = process.argv[2];
const ready = [];
const document = {
  readyState: "loading",
  addEventListener: (_, run) => ready.push(run),
  getElementById: () => null,
  querySelectorAll: () => [],
};
const world = vm.createContext({
  document, console, URLSearchParams, SPHINX_HIGHLIGHT_ENABLED: false, _ready: () => {},
  location: { search: "" }, localStorage: { setItem: () => {} },
});
world.window = world;
const load = (name) => vm.runInContext(fs.readFileSync(path.join(site, name), "utf-8"), world, name);
["_static/search.js", "_static/language_data.js", "_static/searchtools.js", "searchindex.js"].forEach(load);
ready.forEach((run) => run());
world.queries = JSON.parse(fs.readFileSync(0, "utf-8"));
const found = vm.runInContext(
  "queries.map((q) => Search._performSearch(...Search._parseQuery(q)).map((one) => one[0]).reverse())", world);
// Sphinx lists titles and texts apart: the same page counts once, at its better place.
console.log(JSON.stringify(found.map((pages) => [...new Set(pages)])));
