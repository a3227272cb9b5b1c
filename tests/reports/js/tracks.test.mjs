import assert from "node:assert/strict";
import test from "node:test";
import { agreed, steps } from "../../../src/sfumato/reports/assets/js/tracks.js";

test("slots agree where both name the same place", () => {
  assert.equal(agreed([3, 3, 4, -1], [3, 5, 4, -1]), 2);
  assert.equal(agreed([], []), 0);
});

test("a way is its moves; nowhere is left out", () => {
  assert.deepEqual(steps([1, 1, 2, -1, 2, 2, 3]), [1, 2, 2, 3]);
  assert.deepEqual(steps([-1, -1]), []);
});
