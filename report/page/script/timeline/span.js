// @ts-check
/** @file The visible span of time. Used by timelines, several of which share one. */

/** The visible span of time of several timelines, from 0 on in each. */
export class Span {
  /** @param {number} length Length of the longest, in picoseconds. */
  constructor(length) {
    this.length = Math.max(length, 1);
    this.from = 0;
    this.to = this.length;
    /** @type {(() => void)[]} */
    this.listeners = [];
  }

  /**
   * Shows another span, within the data.
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    const width = Math.min(Math.max(to - from, 20), this.length * 1.02);
    const most = this.length * 1.01 - width;
    this.from = Math.min(Math.max(from, -this.length * 0.01), Math.max(most, 0));
    this.to = this.from + width;
    for (const listener of this.listeners) listener();
  }

  /**
   * Zooms around a time.
   * @param {number} factor Below 1 to zoom in.
   * @param {number} [around]
   */
  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  /**
   * Moves by a fraction of the visible span.
   * @param {number} part
   */
  move(part) {
    const by = (this.to - this.from) * part;
    this.show(this.from + by, this.to + by);
  }
}
