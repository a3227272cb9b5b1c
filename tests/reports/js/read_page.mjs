// Reads a page as its own script does and prints what it decodes, for the Python tests.
import { readFileSync } from "node:fs";
import { loadReleases } from "../../../src/sfumato/reports/assets/js/model.js";
import { csv, geojson } from "../../../src/sfumato/reports/assets/js/download.js";

const html = readFileSync(process.argv[2], "utf8");
const data = JSON.parse(/<script id="data" type="application\/json">(.*?)<\/script>/s.exec(html)[1]);
const releases = await loadReleases(data);
const plain = (table) => Array.from(table, (v) => (Number.isFinite(v) ? v : null));
const out = releases.map((r) => ({
  ids: r.map.ids,
  names: r.map.names,
  count: plain(r.numbers.count),
  median: plain(r.numbers.median),
  lower: plain(r.numbers.lower),
  upper: plain(r.numbers.upper),
  decimals: r.numbers.decimals,
  starts: r.clock.starts.map((_, k) => r.clock.iso(k)),
  ends: r.clock.starts.map((_, k) => r.clock.isoEnd(k)),
  csv: csv(r, [0]),
  geojson: JSON.parse(geojson(r, 0)),
}));
process.stdout.write(JSON.stringify(out));
