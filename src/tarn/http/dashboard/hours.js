// Load and size over the last hours.

const CHARTS = [
  {
    title: "Size", whole: true, least: 2, shown: amount,
    curves: [
      { name: "ready", column: "ready", step: true, under: true },
      { name: "wanted", column: "desired", step: true },
    ],
  },
  { title: "Load", most: 1, shown: percent, curves: [{ name: "load", column: "load", under: true }] },
  { title: "In queue", least: 1, shown: amount, curves: [{ name: "requests in queue", column: "queue", under: true }] },
  { title: "Requests", least: 1, shown: amount, curves: [{ name: "requests/s", column: "requests_per_s", under: true }] },
  { title: "Failures", least: 1, shown: amount, curves: [{ name: "failures/s", column: "failures_per_s", under: true }] },
  { title: "Latency", least: 1, shown: milliseconds, curves: [{ name: "latency", column: "latency_ms", under: true }] },
];

const COLUMNS = [
  ["at", "Time", moment],
  ["ready", "Ready", amount],
  ["desired", "Wanted", amount],
  ["load", "Load", percent],
  ["queue", "In queue", amount],
  ["requests_per_s", "Requests/s", amount],
  ["failures_per_s", "Failures/s", amount],
  ["latency_ms", "Latency", milliseconds],
];
const MOST_ROWS = 30;
const LEAST_SHOWN_S = 120;

let charts = null;

const spanShown = () => Number(byId("span").value);

function beginHours(changed) {
  byId("span").addEventListener("change", changed);
  byId("numbers").addEventListener("toggle", () => showHours(seen));
  byId("numbers-head").append(
    ...COLUMNS.map(([, title], index) => el("th", { scope: "col", class: index ? "number" : null }, title)),
  );
}

function showHours({ history, status }) {
  if (!charts) {
    charts = CHARTS.map((chart) => new Chart(chart));
    byId("charts").append(...charts.map((chart) => chart.figure));
  }
  const span = spanShown();
  const rows = history.rows
    .map((row) => Object.fromEntries(history.columns.map((name, index) => [name, row[index]])))
    .filter((row) => row.at >= status.at - span);
  const first = rows.length ? rows[0].at : status.at;
  const from = Math.max(status.at - span, Math.min(first, status.at - LEAST_SHOWN_S));
  for (const chart of charts) chart.fill(rows, from, status.at);
  if (byId("numbers").open) showNumbers(rows);
}

// The newest of each of at most thirty spans of equal length.
function showNumbers(rows) {
  const every = Math.max(1, Math.ceil(rows.length / MOST_ROWS));
  const some = rows.filter((_, index) => (rows.length - 1 - index) % every === 0).reverse();
  const make = () =>
    rowOf(COLUMNS.map(([name], index) => ({ name, tag: index ? "td" : "th", class: index ? "number" : null })));
  keep(byId("numbers-rows"), some, (row) => row.at, make, ({ cell }, row) => {
    for (const [name, , words] of COLUMNS) say(cell[name], words(row[name]));
  });
}
