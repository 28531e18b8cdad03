// The pages of the last minutes, and what happened between two of them.
import { Page } from "./prometheus.js";

const KEEP_SECONDS = 300;
const NOW_SECONDS = 5; // what counts as now: long enough to be calm, short enough to follow

/** The work of a coordinator from one page to another. */
export class Span {
  constructor(from, to, seconds) {
    Object.assign(this, { from, to, seconds });
  }

  count(name) {
    return this.to.total(name) - this.from.total(name);
  }

  rate(name) {
    return this.seconds > 0 ? this.count(name) / this.seconds : null;
  }

  /** count(name) per count(other); null where there was nothing to divide by. */
  ratio(name, other) {
    const below = this.count(other);
    return below > 0 ? this.count(name) / below : null;
  }

  by(name, label) {
    const before = this.from.by(name, label);
    return new Map([...this.to.by(name, label)].map(([value, number]) => [value, number - (before.get(value) ?? 0)]));
  }

  /**
   * A histogram's quantile as Prometheus has it: linear inside a bucket. {value, beyond}: `beyond` where it lies in the last bucket,
   * which has no end. null without observations.
   */
  quantile(name, share) {
    const before = new Map(this.from.buckets(name));
    const buckets = this.to.buckets(name).map(([bound, number]) => [bound, number - (before.get(bound) ?? 0)]);
    const all = buckets.at(-1)?.[1] ?? 0;
    if (all <= 0) return null;
    const rank = share * all;
    const at = buckets.findIndex(([, number]) => number >= rank);
    const [low, under] = at > 0 ? buckets[at - 1] : [0, 0];
    const [high, upto] = buckets[at];
    if (high === Infinity) return { value: low, beyond: true };
    return { value: low + ((high - low) * (rank - under)) / Math.max(upto - under, 1e-9), beyond: false };
  }
}

export class History {
  #samples = []; // {time, page}, oldest first; time in seconds

  add(time, page) {
    this.#samples.push({ time, page });
    while (this.#samples[0].time < time - KEEP_SECONDS) this.#samples.shift();
  }

  /** Another coordinator: its counters begin anew. */
  forget() {
    this.#samples = [];
  }

  get page() {
    return this.#samples.at(-1)?.page ?? new Page();
  }

  /** The last so many seconds, or what there is of them; "all": since the coordinator's start. */
  span(seconds, uptime) {
    if (seconds === "all") return new Span(new Page(), this.page, uptime);
    return this.#between(seconds, this.#samples.length - 1);
  }

  now() {
    return this.span(NOW_SECONDS);
  }

  /** measure(span) over time: [{time, value}], each over the seconds before it. */
  series(measure) {
    return this.#samples.slice(1).map(({ time }, index) => ({ time, value: measure(this.#between(NOW_SECONDS, index + 1)) }));
  }

  /** A gauge over time. */
  gauge(name) {
    return this.#samples.map(({ time, page }) => ({ time, value: page.total(name) }));
  }

  #between(seconds, last) {
    const to = this.#samples[last];
    let first = last;
    while (first > 0 && this.#samples[first - 1].time >= to.time - seconds - 0.5) first--;
    if (first === last && last > 0) first--; // after a pause: the one before it
    const from = this.#samples[first] ?? to;
    return new Span(from.page, to.page, to.time - from.time);
  }
}
