// @ts-check
/** @file The span of time that timelines show. Called by timelines, several of which share one. */

/** The span of time that several timelines show, from 0 on in each. */
export class Span {
  /** @param {number} length Of the longest, in picoseconds. */
  constructor(length) {
    this.length = Math.max(length, 1);
    this.from = 0;
    this.to = this.length;
    /** @type {(() => void)[]} */
    this.listeners = [];
  }

  /**
   * Shows another span, as far as there is something.
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
   * @param {number} factor Below 1: closer.
   * @param {number} [around]
   */
  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  /**
   * Moves by a part of what is shown.
   * @param {number} part
   */
  move(part) {
    const by = (this.to - this.from) * part;
    this.show(this.from + by, this.to + by);
  }
}
