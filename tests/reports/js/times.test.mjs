import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { Clock } from "../../../src/sfumato/reports/assets/js/times.js";

const words = JSON.parse(readFileSync(new URL("../../../src/sfumato/reports/words/en.json", import.meta.url), "utf8"));
// 28 October 2007 in Paris: 25 hours, summer time until 03:00.
const autumn = new Clock({ tz: "Europe/Paris", first: 1193522400, steps: [[3600, 24]], lengths: [[3600, 25]], changes: [[0, 7200, "CEST"], [3, 3600, "CET"]] }, words);

test("the hour that comes twice is told apart", () => {
  assert.deepEqual([2, 3].map((k) => autumn.hours(k)), ["02:00–02:00", "02:00–03:00"]);
  assert.deepEqual([2, 3].map((k) => autumn.zone(k)), ["CEST, UTC+2", "CET, UTC+1"]);
  assert.deepEqual([2, 3].map((k) => autumn.iso(k)), ["2007-10-28T02:00:00+02:00", "2007-10-28T02:00:00+01:00"]);
  assert.equal(autumn.isoEnd(2), "2007-10-28T02:00:00+01:00");
});

test("a day of 25 hours is one day", () => {
  assert.equal(autumn.slots, 25);
  assert.deepEqual(autumn.days, [0]);
  assert.equal(autumn.day(24), "Sunday 28 October 2007");
  assert.equal(autumn.hours(24), "23:00–00:00");
});

test("half-hour zones and slots of a day", () => {
  const india = new Clock({ tz: "Asia/Kolkata", first: 1193509800, steps: [[86400, 1]], lengths: [[86400, 2]], changes: [[0, 19800, "IST"]] }, words);
  assert.equal(india.zone(0), "IST, UTC+5:30");
  assert.equal(india.hours(1), "all day");
  assert.equal(india.short(1), "Mon 29");
  assert.equal(india.iso(0), "2007-10-28T00:00:00+05:30");
});
