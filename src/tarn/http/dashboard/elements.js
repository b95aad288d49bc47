// Makes and fills elements. All that is shown of the cluster becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

function dress(node, attributes, parts) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...parts.flat().filter((part) => part !== null && part !== undefined && part !== ""));
  return node;
}

const el = (tag, attributes = {}, ...parts) => dress(document.createElement(tag), attributes, parts);
const svg = (tag, attributes = {}, ...parts) =>
  dress(document.createElementNS(SVG, tag), attributes, parts);

// Sets a text only where it differs: a screen reader and a selection notice every change.
function say(node, text) {
  const said = text === null || text === undefined ? "" : String(text);
  if (node.textContent !== said) node.textContent = said;
}

// The same for sentences of the master, which quote what to type in `backquotes`.
function sayProse(node, text) {
  const said = String(text ?? "");
  if (node.dataset.said === said) return;
  node.dataset.said = said;
  const parts = said.split("`");
  const quoted = parts.length % 2 === 1;
  node.replaceChildren(...(quoted ? parts.map((part, place) => (place % 2 ? el("code", {}, part) : part)) : [said]));
}

function mark(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

// Keeps one child of *parent* for each row, in their order: make(row) makes it, update(child, row)
// fills it in. What has the focus keeps it, since a child that stays is not taken out.
function keep(parent, rows, key, make, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const taken = new Set();
  let place = parent.firstElementChild;
  for (const row of rows) {
    let name = String(key(row));
    while (taken.has(name)) name += "+";
    taken.add(name);
    let child = old.get(name);
    old.delete(name);
    if (!child) {
      child = make(row);
      child.dataset.key = name;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    update(child, row);
  }
  for (const child of old.values()) child.remove();
}

// A line of text for each child, by place: a line whose text changes stays the same child.
function keepLines(parent, lines) {
  const rows = lines.map((text, place) => ({ text, place }));
  keep(parent, rows, (row) => row.place, () => el("li"), (child, row) => sayProse(child, row.text));
}
