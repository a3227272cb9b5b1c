import assert from "node:assert/strict";
import test from "node:test";
import { classOf, evenBreaks, quantile, round, ticks } from "../../../src/sfumato/reports/assets/js/breaks.js";
import { diverging, luminance, sequential } from "../../../src/sfumato/reports/assets/js/colours.js";

const values = Array.from({ length: 5000 }, (_, k) => Math.exp(k / 700));

test("a bound belongs to the class above it, a missing value to none", () => {
  assert.deepEqual([9.99, 10, 19, 20, NaN].map((v) => classOf([10, 20], v)), [0, 1, 1, 2, -1]);
});

test("differences have bounds symmetric about zero", () => {
  const breaks = evenBreaks(values.map((v, k) => (k % 2 ? v : -v)));
  assert.deepEqual(breaks, breaks.map((b) => -b).reverse());
  assert.equal(breaks.length % 2, 0);
});

test("ticks cover the range in steps of 1, 2 or 5", () => {
  assert.deepEqual(ticks(0, 100, 4), [0, 50, 100]);
  assert.deepEqual(ticks(-10, 10, 4), [-10, -5, 0, 5, 10]);
  assert.equal(quantile([1, 2, 3, 4], 0.5), 2.5);
});

for (const dark of [false, true]) {
  test(`lightness changes steadily, dark ${dark}`, () => {
    for (const size of [3, 5, 7]) {
      const light = sequential(size, dark).map(luminance);
      const steps = light.slice(1).map((v, k) => (dark ? v - light[k] : light[k] - v));
      assert.ok(steps.every((s) => s > 0.01), `${size}: ${steps}`);
    }
  });

  test(`both sides of a difference move away from the middle, dark ${dark}`, () => {
    const light = diverging(7, dark).map(luminance);
    for (let k = 0; k < 3; k += 1) {
      assert.ok(dark ? light[k] > light[k + 1] : light[k] < light[k + 1]);
      assert.ok(dark ? light[6 - k] > light[5 - k] : light[6 - k] < light[5 - k]);
    }
  });
}

/** What someone without red (Viénot 1999) sees; the ends must stay far apart. */
function withoutRed(colour) {
  const [r, g, b] = [1, 3, 5].map((k) => (parseInt(colour.slice(k, k + 2), 16) / 255) ** 2.2);
  return [0.11238 * r + 0.88762 * g, 0.11238 * r + 0.88762 * g, 0.00401 * r - 0.00401 * g + b];
}

test("blue and orange differ without red cones", () => {
  for (const dark of [false, true]) {
    const all = diverging(7, dark);
    const [cold, warm] = [withoutRed(all[0]), withoutRed(all[6])];
    assert.ok(Math.abs(cold[2] - warm[2]) > 0.15);
  }
});
