/** Bytes out of text: base64, raw deflate, varints. */

/**
 * @param {string} text base64
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k += 1) bytes[k] = raw.charCodeAt(k);
  return bytes;
}

/**
 * @param {string} text base64 of raw deflate
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function inflate(text) {
  const squeezed = new Blob([fromBase64(text)]).stream();
  const stream = squeezed.pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A reader of little-endian base-128 numbers. */
export class Varints {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  /** @returns {number} */
  next() {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at];
      if (byte === undefined) throw new Error("the data ends too early");
      this.at += 1;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  }

  /** @returns {number} a number with a sign, zigzag-coded */
  signed() {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}
