// Prometheus' text format, as far as the dashboard needs it: a page is its series, found by name and labels.

const PREFIX = /^outrider[:_]/;
const SERIES = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

const number = (text) => (/^\+?Inf/.test(text) ? Infinity : text === "-Inf" ? -Infinity : Number(text));
const unescaped = (text) => text.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));

/** A page at one moment. Names go without our prefix. */
export class Page {
  constructor(text = "") {
    this.families = new Map(); // name -> [{labels, value}]
    for (const line of text.split("\n")) this.#read(line);
  }

  #read(line) {
    const found = line.startsWith("#") ? null : SERIES.exec(line);
    if (!found) return;
    const name = found[1].replace(PREFIX, "");
    const labels = {};
    for (const [, label, value] of (found[2] ?? "").matchAll(LABEL)) labels[label] = unescaped(value);
    if (!this.families.has(name)) this.families.set(name, []);
    this.families.get(name).push({ labels, value: number(found[3]) });
  }

  has(name) {
    return this.families.has(name);
  }

  /** The sum of a metric's series; 0 where there is none. */
  total(name) {
    return (this.families.get(name) ?? []).reduce((sum, series) => sum + series.value, 0);
  }

  /** Label's value -> number. */
  by(name, label) {
    const found = new Map();
    for (const { labels, value } of this.families.get(name) ?? []) {
      found.set(labels[label], (found.get(labels[label]) ?? 0) + value);
    }
    return found;
  }

  /** A histogram: upper bound -> observations up to there, bounds ascending. */
  buckets(name) {
    const bounds = [...this.by(`${name}_bucket`, "le")].map(([bound, value]) => [number(bound), value]);
    return bounds.sort(([a], [b]) => a - b);
  }
}
