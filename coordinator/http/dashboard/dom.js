// Making and finding elements. Text goes in as text nodes only: labels, owners and events are written by peers and clients, and
// nothing that they say may become markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** element("p", { class: "note" }, "text", another) */
export const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets a node's text where it is another one: what has not changed is not read out again, and a selection stays. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** A large figure: its number and, smaller, its unit. */
export function setFigure(node, [number, unit]) {
  if (node.childElementCount !== 2) node.replaceChildren(element("strong"), element("small"));
  setText(node.children[0], number);
  setText(node.children[1], unit);
}
