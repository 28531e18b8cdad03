// Small charts: a line over time, columns, and a bar in parts. Each says in words what it shows.
import { element, setAttribute, setText, svg } from "./dom.js";
import { duration } from "./format.js";

const GAP_SECONDS = 10; // longer silence is a gap in the line, not a slope
const [SECONDS_MIN, SECONDS_MAX] = [60, 300]; // a chart grows with what is known, so that it is not empty for minutes

// 1, 2 or 5 times a power of ten, at least `number`.
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1e-9)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= number * 0.999);
}

/** A line over time. `say` formats a value; with `axis` its top is labelled, and the pointer reads values. */
export class LineChart {
  #points = [];
  #now = 0;
  #seconds = SECONDS_MIN;

  constructor(node, { label, say, axis = false, top = null }) {
    Object.assign(this, { node, label, say, fixedTop: top });
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.cursor = svg("path", { class: "cursor" });
    node.setAttribute("role", "img");
    node.append(svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, this.area, this.line, this.cursor));
    if (axis) this.#addAxis();
  }

  #addAxis() {
    this.top = element("span", { class: "top" });
    this.reading = element("span", { class: "reading", hidden: true });
    this.begin = element("span", { class: "begin" });
    this.node.append(this.top, this.begin, element("span", { class: "end" }, "now"), this.reading);
    this.node.addEventListener("pointermove", (event) => this.#read(event));
    this.node.addEventListener("pointerleave", () => this.#read(null));
  }

  draw(points, now) {
    this.#points = points.filter(({ value }) => value !== null && Number.isFinite(value));
    this.#now = now;
    this.#seconds = Math.min(SECONDS_MAX, Math.max(SECONDS_MIN, now - (this.#points[0]?.time ?? now)));
    const highest = this.#points.reduce((most, { value }) => Math.max(most, value), 0);
    const top = this.fixedTop ?? (highest > 0 ? roundUp(highest) : 1);
    this.#trace(top);
    if (this.top) {
      setText(this.top, highest > 0 ? this.say(top) : "");
      setText(this.begin, `${duration(this.#seconds)} ago`);
    }
    setAttribute(this.node, "aria-label", this.#words(highest));
  }

  #x = ({ time }) => Math.max(0, 100 - ((this.#now - time) / this.#seconds) * 100);

  #trace(top) {
    let [line, area, before] = ["", "", null];
    for (const point of this.#points) {
      const x = this.#x(point).toFixed(2);
      const y = (100 - Math.min(1, point.value / top) * 96 - 2).toFixed(2);
      const gap = !before || point.time - before.time > GAP_SECONDS;
      if (gap && before) area += `V100Z`;
      line += `${gap ? "M" : "L"}${x} ${y}`;
      area += gap ? `M${x} 100V${y}` : `L${x} ${y}`;
      before = point;
    }
    setAttribute(this.line, "d", line);
    setAttribute(this.area, "d", area && `${area}V100Z`);
  }

  #words(highest) {
    if (this.#points.length === 0) return `${this.label}: nothing yet`;
    return `${this.label}: now ${this.say(this.#points.at(-1).value)}, at most ${this.say(highest)} in the last ${duration(this.#seconds)}`;
  }

  // The point under the pointer, in words.
  #read(event) {
    const box = this.node.getBoundingClientRect();
    const x = event && ((event.clientX - box.left) / box.width) * 100;
    const near = event && this.#points.reduce((best, point) => (!best || Math.abs(this.#x(point) - x) < Math.abs(this.#x(best) - x) ? point : best), null);
    this.reading.hidden = !near;
    setAttribute(this.cursor, "d", near ? `M${this.#x(near)} 0V100` : "");
    if (near) setText(this.reading, `${this.say(near.value)}, ${duration(this.#now - near.time)} ago`);
  }
}

/** Columns of shares: [{label, share, words}] into a list, which is read as its words. */
export function drawColumns(list, columns) {
  while (list.childElementCount > columns.length) list.lastChild.remove();
  while (list.childElementCount < columns.length) {
    const bar = element("span", { class: "stem", "aria-hidden": "true" }, element("span", { class: "bar" }));
    list.append(element("li", {}, element("span", { class: "hidden" }), element("span", { class: "value", "aria-hidden": "true" }), bar, element("span", { class: "name", "aria-hidden": "true" })));
  }
  columns.forEach(({ label, share, value, words }, index) => {
    const [hidden, number, stem, name] = list.children[index].children;
    setText(hidden, words);
    setText(number, value);
    setText(name, label);
    stem.firstChild.style.height = `${Math.min(1, Math.max(0, share)) * 100}%`;
  });
}

/** One bar in parts: [{name, share}]; the classes part-<name> colour them. */
export function drawSplit(node, parts, words) {
  node.setAttribute("role", "img");
  setAttribute(node, "aria-label", words);
  if (node.childElementCount !== parts.length) node.replaceChildren(...parts.map(({ name }) => element("span", { class: `part part-${name}` })));
  parts.forEach(({ share }, index) => (node.children[index].style.width = `${share * 100}%`));
}

export function drawMeter(node, share, words) {
  if (!node.firstChild) node.append(element("span"));
  node.setAttribute("role", "img");
  setAttribute(node, "aria-label", words);
  node.classList.toggle("high", share > 0.9);
  node.firstChild.style.width = `${Math.min(1, Math.max(0, share || 0)) * 100}%`;
}
