import assert from "node:assert/strict";
import test from "node:test";
import { deflateRawSync } from "node:zlib";
import { fromBase64, inflate, Varints } from "../../../src/sfumato/reports/assets/js/bytes.js";

test("base64 gives the bytes back", () => {
  assert.deepEqual([...fromBase64(Buffer.from([0, 127, 128, 255]).toString("base64"))], [0, 127, 128, 255]);
});

test("inflate undoes raw deflate", async () => {
  const raw = Buffer.from("sfumato ".repeat(100));
  assert.deepEqual(Buffer.from(await inflate(deflateRawSync(raw).toString("base64"))), raw);
});

test("inflate refuses damaged data", async () => {
  await assert.rejects(inflate(Buffer.from("not deflate at all").toString("base64")));
});

test("varints of one, two and five bytes, with and without sign", () => {
  const read = new Varints(Uint8Array.of(5, 0xac, 0x02, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2));
  assert.deepEqual([read.next(), read.next(), read.next()], [5, 300, 4294967295]);
  assert.deepEqual([read.signed(), read.signed()], [-1, 1]);
  assert.throws(() => read.next(), /too early/);
});
