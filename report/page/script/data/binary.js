// @ts-check
/** @file Decoding of packed data, from an element's text to numbers. Used for data that is too large for JSON. */

/**
 * Decodes Base64.
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function bytesOf(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) bytes[at] = raw.charCodeAt(at);
  return bytes;
}

/**
 * Unpacks bytes.
 * @param {Uint8Array<ArrayBuffer>} packed
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function inflate(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Returns the unpacked data of the page's element with this name; empty if there is none.
 * @param {string} name
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function dataOf(name) {
  const element = document.getElementById(name);
  const text = element === null ? "" : (element.textContent ?? "");
  return text === "" ? new Uint8Array(0) : inflate(bytesOf(text));
}

/** Reads numbers one after another. */
export class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  /**
   * Reads the next number; beyond 2^53 it is not exact.
   * @returns {number}
   */
  number() {
    const bytes = this.bytes;
    let value = 0;
    let scale = 1;
    for (;;) {
      if (this.at >= bytes.length) return value;
      const byte = bytes[this.at];
      this.at += 1;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }

  /**
   * Reads the next number, with its sign.
   * @returns {number}
   */
  signed() {
    const value = this.number();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  /**
   * Reads the next bytes, which follow their number.
   * @returns {Uint8Array}
   */
  block() {
    const length = this.number();
    const block = this.bytes.subarray(this.at, this.at + length);
    this.at += length;
    return block;
  }

  /**
   * Reads the next text.
   * @returns {string}
   */
  text() {
    return new TextDecoder().decode(this.block());
  }
}
