// Cells that more than one table has.

const stateMark = () => el("span", { class: "state" }, el("span", { class: "key", "aria-hidden": "true" }), el("span"));

function fillState(node, state) {
  mark(node, "data-state", state);
  say(node.lastElementChild, state);
}

// Cells by name: {name, tag, class, label}; made once, and filled by name. The roles are said, since
// a table that is laid out as cards loses its own.
function rowOf(cells) {
  const row = el("tr", { role: "row" });
  row.cell = {};
  for (const { name, tag = "td", label, parts = [], ...attributes } of cells) {
    const scope = tag === "th" ? { scope: "row", role: "rowheader" } : { role: "cell" };
    row.cell[name] = el(tag, { ...scope, ...attributes, "data-label": label }, ...parts);
    row.append(row.cell[name]);
  }
  return row;
}

// A text with a quieter one under it.
const twoLines = () => [el("span"), el("span", { class: "quiet reason" })];

function fillTwo(cell, first, second) {
  say(cell.firstElementChild, first);
  say(cell.lastElementChild, second);
  show(cell.lastElementChild, Boolean(second));
}
