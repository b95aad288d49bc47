// Curves over time, drawn as SVG. A curve with a gap is one of which nothing is known there.

const HEIGHT = 116;
const MARGIN = { left: 46, right: 8, top: 8, bottom: 20 };

// A chart: {title, curves: [{name, column, step, under}], shown: value => text, whole: whether it
// counts things, least: how far its axis goes at least, most: how far whatever comes}.
class Chart {
  constructor(chart) {
    this.chart = chart;
    this.caption = el("figcaption");
    this.picture = svg("svg", { role: "img", "aria-label": chart.title });
    this.figure = el("figure", {}, this.caption, this.picture);
    this.pointed = null;
    this.picture.addEventListener("pointermove", (event) => this.#point(event));
    this.picture.addEventListener("pointerleave", () => this.#point(null));
    new ResizeObserver(() => this.draw()).observe(this.figure);
  }

  // rows: objects by column, `at` among them, the oldest first; from, to: Unix seconds.
  fill(rows, from, to) {
    Object.assign(this, { rows, from, to });
    this.draw();
  }

  draw() {
    const width = this.figure.clientWidth;
    if (!this.rows || width < 60) return;
    const scale = this.#scale(width);
    mark(this.picture, "viewBox", `0 0 ${width} ${HEIGHT}`);
    // the first curve lies over the others
    const curves = this.chart.curves.map((curve, place) => this.#curve(curve, place, scale)).reverse().flat();
    const hair = this.pointed ? [this.#hair(scale)] : [];
    const none = curves.every((curve) => !curve.getAttribute("d")) ? [this.#none(width)] : [];
    this.picture.replaceChildren(...this.#axes(scale), ...curves, ...hair, ...none);
    this.#tell();
  }

  #scale(width) {
    const columns = this.chart.curves.map((curve) => curve.column);
    const values = this.rows.flatMap((row) => columns.map((column) => row[column])).filter(known);
    const highest = Math.max(this.chart.least ?? 0, 1.04 * Math.max(0, ...values));
    const { step, most } = ticks(this.chart.most ?? highest, this.chart.whole);
    const inner = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
    const x = (at) => MARGIN.left + (inner.width * (at - this.from)) / (this.to - this.from);
    const y = (value) => MARGIN.top + inner.height * (1 - value / most);
    return { x, y, step, most, width };
  }

  #axes({ x, y, step, most, width }) {
    const parts = [];
    for (let value = 0; value <= most + step / 1e6; value += step) {
      const at = y(value);
      parts.push(svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
      const label = this.chart.shown(value);
      parts.push(svg("text", { class: "axis", x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, label));
    }
    for (const at of hoursBetween(this.from, this.to, width)) {
      parts.push(svg("text", { class: "axis", x: x(at), y: HEIGHT - 4, "text-anchor": "middle" }, clock(at)));
    }
    return parts;
  }

  #curve(curve, place, { x, y }) {
    const runs = runsOf(this.rows, curve.column).map((run) =>
      run.map((row) => [x(row.at).toFixed(1), y(row[curve.column]).toFixed(1)]),
    );
    const path = runs.map((run) => line(run, curve.step)).join("");
    const parts = [svg("path", { class: `curve ${place ? "second" : "first"}`, d: path })];
    if (curve.under) {
      const ground = y(0).toFixed(1);
      const filled = runs.map((run) => `${line(run, curve.step)}V${ground}H${run[0][0]}Z`).join("");
      parts.unshift(svg("path", { class: "under", d: filled }));
    }
    return parts;
  }

  #none(width) {
    const place = { x: (MARGIN.left + width) / 2, y: HEIGHT / 2, "text-anchor": "middle" };
    return svg("text", { class: "axis", ...place }, "nothing known here");
  }

  #hair({ x }) {
    const at = x(this.pointed.at);
    return svg("line", { class: "hair", x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom });
  }

  #point(event) {
    if (!this.rows?.length) return;
    this.pointed = event ? this.#nearest(event.offsetX) : null;
    this.draw();
  }

  #nearest(offset) {
    const share = (offset - MARGIN.left) / (this.figure.clientWidth - MARGIN.left - MARGIN.right);
    const at = this.from + share * (this.to - this.from);
    const far = (row) => Math.abs(row.at - at);
    return this.rows.reduce((best, row) => (far(row) < far(best) ? row : best));
  }

  // The caption has the newest values, or those under the pointer.
  #tell() {
    const row = this.pointed ?? this.rows.at(-1) ?? {};
    const told = this.chart.curves.map((curve, place) => ({
      name: curve.name, place, text: this.chart.shown(row[curve.column]),
    }));
    const parts = told.map(({ name, place, text }) =>
      el("span", { class: "key-line" }, swatch(place), `${name} `, el("strong", {}, text)),
    );
    const when = this.pointed ? [el("span", {}, `at ${moment(row.at)}`)] : [];
    this.caption.replaceChildren(...parts, ...when);
    mark(this.picture, "aria-label", `${this.chart.title}: ${told.map((one) => `${one.name} ${one.text}`).join(", ")}`);
  }
}

function swatch(place) {
  const drawn = svg("path", { class: `swatch ${place ? "second" : "first"}`, d: "M0 3H18" });
  return svg("svg", { viewBox: "0 0 18 6", "aria-hidden": "true" }, drawn);
}

// Rows that follow one another and know *column*.
function runsOf(rows, column) {
  const runs = [];
  let run = null;
  for (const row of rows) {
    if (!known(row[column])) run = null;
    else if (run) run.push(row);
    else runs.push((run = [row]));
  }
  return runs;
}

function line(points, stepped) {
  return points
    .map(([x, y], index) => {
      if (!index) return `M${x} ${y}`;
      return stepped ? `H${x}V${y}` : `L${x} ${y}`;
    })
    .join("");
}

// Steps of 1, 2 or 5 times a power of ten, four of them at most.
function ticks(highest, whole) {
  const rough = Math.max(highest, whole ? 2 : 1e-3) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const fit = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  const step = whole ? Math.max(1, Math.round(fit)) : fit;
  return { step, most: step * Math.ceil(highest / step - 1e-9) };
}

function hoursBetween(from, to, width) {
  const most = Math.max(2, Math.floor(width / 64));
  const step = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600].find((one) => (to - from) / one <= most) ?? 43200;
  const marks = [];
  for (let at = Math.ceil((from + 1) / step) * step; at < to - step / 5; at += step) marks.push(at);
  return marks.filter((at) => at - from > step / 5);
}
