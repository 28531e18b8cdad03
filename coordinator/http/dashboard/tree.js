// The draft trees of a text. The accepted path is a straight line at the top, and ends in the token that the target chose itself;
// guesses at the same token stand in one column.
import { byId, setAttribute, setText, svg } from "./dom.js";
import { whole } from "./format.js";

const ROW = 30;
const BOX = 22;
const GAP = 28; // between columns, for the branches
const MARGIN = 12;
const LETTER = 7.3; // of the 12 px monospaced face
const PAD = 8;
const LETTERS_MAX = 16;

const TREES_MAX = 500; // of a text, to look back at

// A token as it can be seen: spaces and line ends are signs.
function visible(text) {
  const shown = text.replace(/ /g, "·").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
  return shown.length > LETTERS_MAX ? `${shown.slice(0, LETTERS_MAX - 1)}…` : shown;
}

/** Nodes with depth, children (accepted ones first) and row; node 0 is the root, the last committed token. */
function plan({ text, parents, accepted }, next) {
  const taken = new Set(accepted);
  const nodes = [{ text: "", kind: "root", depth: 0, children: [] }];
  text.forEach((words, index) => {
    const parent = nodes[parents[index]] ?? nodes[0];
    const node = { text: words, kind: taken.has(index + 1) ? "taken" : "left", depth: parent.depth + 1, children: [] };
    nodes.push(node);
    if (node.kind === "taken") parent.children.unshift(node);
    else parent.children.push(node);
  });
  if (next && !next.drafted) {
    const end = nodes[accepted.at(-1) ?? 0];
    const node = { text: next.text, kind: "next", depth: end.depth + 1, children: [] };
    nodes.push(node);
    end.children.unshift(node);
  }
  return { nodes, rows: giveRows(nodes[0]) };
}

// A node and its first children stand in one row, the highest that is free in all their columns; other children come below them,
// the deepest first. So no branch crosses another, and a lone guess takes no more room than itself. Returns how many rows there are.
function giveRows(root) {
  const free = []; // by column: the first row that is
  const place = (node, least) => {
    const line = [node];
    while (line.at(-1).children.length > 0) line.push(line.at(-1).children[0]);
    const row = Math.max(least, ...line.map(({ depth }) => free[depth] ?? 0));
    for (const each of line) {
      each.row = row;
      free[each.depth] = row + 1;
    }
    for (const each of line.reverse()) each.children.slice(1).forEach((child) => place(child, row + 1));
  };
  place(root, 0);
  return Math.max(...free);
}

const widthOf = (node) => (node.kind === "root" ? BOX : visible(node.text).length * LETTER + 2 * PAD);

// Left edge of each column; the last entry is where the drawing ends.
function columnsOf(nodes) {
  const widths = [];
  for (const node of nodes) widths[node.depth] = Math.max(widths[node.depth] ?? 0, widthOf(node));
  return widths.reduce((edges, width) => [...edges, edges.at(-1) + width + GAP], [MARGIN]);
}

const middle = (node) => MARGIN + node.row * ROW + BOX / 2;

function branch(from, to, columns) {
  const [x0, y0] = [columns[from.depth] + widthOf(from), middle(from)];
  const [x1, y1] = [columns[to.depth], middle(to)];
  const bend = x1 - GAP / 2;
  const path = y0 === y1 ? `M${x0} ${y0}H${x1}` : `M${x0} ${y0}H${bend - 6}Q${bend} ${y0} ${bend} ${y0 + 6}V${y1 - 6}Q${bend} ${y1} ${bend + 6} ${y1}H${x1}`;
  return svg("path", { class: `branch ${to.kind}`, d: path });
}

function box(node, columns) {
  const [x, y, width] = [columns[node.depth], middle(node) - BOX / 2, widthOf(node)];
  const group = svg("g", { class: `node ${node.kind}` }, svg("rect", { x, y, width, height: BOX, rx: node.kind === "root" ? BOX / 2 : 5 }));
  if (node.kind !== "root") group.append(svg("title", {}, JSON.stringify(node.text)), svg("text", { x: x + PAD, y: y + BOX / 2 + 4 }, visible(node.text)));
  return group;
}

function draw({ nodes, rows }) {
  const columns = columnsOf(nodes);
  const [width, height] = [columns.at(-1) - GAP + MARGIN, rows * ROW - (ROW - BOX) + 2 * MARGIN];
  const branches = nodes.flatMap((node) => node.children.map((child) => branch(node, child, columns)));
  branches.sort((a, b) => a.classList.contains("taken") - b.classList.contains("taken")); // the path lies on top
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }, ...branches, ...nodes.map((node) => box(node, columns)));
}

// The path as a sentence, for who does not see it.
function describe({ nodes }) {
  const words = (kind) => nodes.filter((node) => node.kind === kind).map((node) => node.text);
  const [taken, next] = [words("taken"), words("next")];
  const path = taken.length > 0 ? `taken: ${JSON.stringify(taken.join(""))}` : "none taken";
  return `A tree of ${words("taken").length + words("left").length} guesses, ${path}${next.length > 0 ? `, then the target’s own ${JSON.stringify(next[0])}` : ""}`;
}

export class TreeView {
  #trees = []; // {tree, next}, the latest TREES_MAX
  #at = -1;
  #drawn = null; // the tree in the canvas
  #frame = 0; // in which it is drawn anew: rounds may come faster than frames

  constructor() {
    byId("tree-before").addEventListener("click", () => this.#go(this.#at - 1));
    byId("tree-after").addEventListener("click", () => this.#go(this.#at + 1));
  }

  clear() {
    this.#trees = [];
    this.#at = -1;
    byId("tree").hidden = true;
  }

  /** `next`: the token behind the accepted path. Shows it, unless somebody looks at an older one. */
  add(tree, next) {
    const follows = this.#at === this.#trees.length - 1;
    this.#trees.push({ tree, next });
    if (this.#trees.length > TREES_MAX) {
      this.#trees.shift();
      this.#at = Math.max(0, this.#at - 1);
    }
    this.#go(follows ? this.#trees.length - 1 : this.#at);
  }

  #go(at) {
    this.#at = at;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#trees.length > 0) this.#show(this.#trees[this.#at]);
    });
  }

  #show({ tree, next }) {
    byId("tree").hidden = false;
    byId("tree-before").disabled = this.#at === 0;
    byId("tree-after").disabled = this.#at === this.#trees.length - 1;
    setText(byId("tree-round"), `Round ${whole(this.#at + 1)} of ${whole(this.#trees.length)}`);
    setText(byId("tree-note"), `${whole(tree.accepted.length)} of ${whole(tree.text.length)} guesses taken`);
    if (tree !== this.#drawn) this.#draw(plan(tree, next));
    this.#drawn = tree;
  }

  #draw(layout) {
    const drawing = draw(layout);
    setAttribute(drawing, "aria-label", describe(layout));
    byId("tree-canvas").replaceChildren(drawing);
  }
}
