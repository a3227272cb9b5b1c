import assert from "node:assert/strict";
import test from "node:test";
import { csvField, fileName } from "../../../src/sfumato/reports/assets/js/download.js";
import { Figures, fill, plain } from "../../../src/sfumato/reports/assets/js/format.js";
import { placeLabels } from "../../../src/sfumato/reports/assets/js/labels.js";
import { fit, pan, scaleBar, zoom } from "../../../src/sfumato/reports/assets/js/view.js";

const words = { map: { missing: "none", no_interval: "(no interval)", from_to: "({lower} to {upper})" } };

test("zooming keeps the point under the pointer", () => {
  const before = fit(800, 600, 16384, 9000, 10);
  const after = zoom(before, 3, 200, 150, before.scale);
  const lattice = (view) => [(200 - view.x) / view.scale, (150 - view.y) / view.scale];
  lattice(before).forEach((v, k) => assert.ok(Math.abs(v - lattice(after)[k]) < 1e-6));
  assert.equal(zoom(before, 1e9, 0, 0, before.scale).scale, 40 * before.scale);
  assert.equal(zoom(before, 1e-9, 0, 0, before.scale).scale, before.scale);
});

test("the map cannot be pushed out of sight", () => {
  const size = { width: 800, height: 600, mapWidth: 1000, mapHeight: 1000 };
  const far = pan({ scale: 0.5, x: 0, y: 0 }, 1e6, -1e6, size);
  assert.ok(far.x < 800 && far.y + 500 > 0);
});

test("the scale bar is round and fits", () => {
  for (const m of [0.3, 7.7, 42, 950]) {
    const bar = scaleBar(m, 110);
    assert.ok(bar.pixels <= 110 && bar.pixels > 20);
    assert.match(String(bar.metres), /^[125]0*$/);
  }
});

test("labels do not collide, do not leave the screen and fit their room", () => {
  const one = { text: "a", x: 100, y: 100, width: 60, room: 80, weight: 1, strong: false };
  const near = { ...one, text: "b", x: 130, weight: 5 };
  const tight = { ...one, text: "c", x: 300, room: 50 };
  const edge = { ...one, text: "d", x: 10, y: 300 };
  const placed = placeLabels([one, near, tight, edge], 14, { width: 400, height: 400 }, 10);
  assert.deepEqual(placed.map((p) => p.text), ["b"]);
});

test("an interval is ± where it is even and two ends where it is not", () => {
  const f = new Figures("en", 0, words);
  assert.equal(f.interval(100, 80, 120), "± 20");
  assert.equal(f.interval(5, 0, 25), "(0 to 25)");
  assert.equal(f.interval(5, NaN, NaN), "(no interval)");
  assert.equal(f.count(1234567), "1,234,567");
  assert.equal(f.about(-1234.56), "−1,235");
  assert.equal(f.about(0.012345), "0.0123");
});

test("sentences keep what has no value", () => {
  assert.equal(fill("{a} and {b}", { a: 1 }), "1 and {b}");
  assert.equal(plain("Évry-Ÿ"), "evry-y");
});

test("a spreadsheet gets text where a name looks like a formula", () => {
  assert.equal(csvField('=HYPERLINK("x")'), '"\'=HYPERLINK(""x"")"');
  assert.equal(csvField('a "b", c'), '"a ""b"", c"');
  assert.equal(csvField(-1.5), "-1.5");
  assert.equal(csvField(NaN), "");
  assert.equal(fileName("../../etc/passwd <x>"), "etc-passwd-x");
});
