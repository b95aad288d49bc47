// The cluster at a glance: its name and state, why it is so, and the newest numbers.

const TONES = {
  ready: "good",
  degraded: "warn",
  failed: "bad",
  starting: "busy",
  submitted: "busy",
  stopping: "busy",
};

function showHead(seen) {
  const { status } = seen;
  say(byId("name"), status.name);
  say(byId("state"), status.state);
  mark(byId("state"), "data-tone", TONES[status.state] ?? "calm");
  show(byId("state"), true);
  document.title = `${status.ready}/${status.desired} ${status.name} · TARN`;
  say(byId("cluster-title"), `${status.ready} of ${counted(status.desired, "instance")} ready`);
  sayProse(byId("why"), seen.scaling?.sentence ?? status.holds?.size?.sentence);
  keepLines(byId("notes"), notes(seen));
  showTiles(seen);
  say(byId("facts"), facts(status));
  announce(status);
}

// What a person should know before all else, a line each.
function notes({ status }) {
  const { pause, holds } = status;
  const lines = status.reason ? [`${capital(status.reason)}.`] : [];
  if (status.stale) lines.push("This master was replaced by another one: what it shows is old.");
  if (pause) {
    const why = pause.reason ? ` (${pause.reason})` : "";
    lines.push(`Scaling is paused until ${moment(pause.until)}${why}.`);
  }
  if (holds?.halted) lines.push(`Nothing is launched: ${holds.halted}.`);
  if (known(holds?.thaws_in_s)) {
    lines.push(`Silent instances are not replaced for another ${lasting(holds.thaws_in_s)}.`);
  }
  if (known(holds?.retry_in_s) && holds.failures_in_a_row) {
    const failures = counted(holds.failures_in_a_row, "launch", "launches");
    lines.push(`${failures} failed in a row; the next in ${lasting(holds.retry_in_s)}.`);
  }
  if (status.demand) {
    const { waiting, refused, from } = status.demand;
    if (waiting) lines.push(`${counted(waiting, "request waits", "requests wait")} at ${from} for an instance.`);
    if (refused) lines.push(`${counted(refused, "request was", "requests were")} refused at ${from}: there is no instance.`);
  }
  return lines;
}

function showTiles({ status, history }) {
  const { limits } = status;
  const now = newest(history);
  const tiles = [
    ["Ready", `${status.ready} / ${status.desired}`, sizeWords(limits)],
    ["In work", amount(busy(status)), "queued and executing"],
  ];
  if (now) {
    tiles.push(["In queue", amount(now.queue), "requests wait"]);
    tiles.push(["Requests", amount(now.requests_per_s), "a second"]);
    tiles.push(["Failures", amount(now.failures_per_s), "a second"]);
    tiles.push(["Latency", milliseconds(now.latency_ms), "a request, as a mean"]);
  }
  const make = () => el("div", {}, el("dt"), el("dd", { class: "big" }), el("dd", { class: "quiet" }));
  keep(byId("tiles"), tiles, ([title]) => title, make, (tile, texts) => {
    [...tile.children].forEach((child, index) => say(child, texts[index]));
  });
}

function sizeWords({ min, max, ceiling, ceiling_reason: why }) {
  const bounds = `between ${min} and ${max}`;
  return known(ceiling) && ceiling < max ? `${bounds}; ${ceiling} at most: ${why}` : bounds;
}

function busy(status) {
  const numbers = status.instances.map((one) => one.busy).filter(known);
  return numbers.length ? numbers.reduce((sum, one) => sum + one, 0) : null;
}

function facts(status) {
  return [
    `runtime ${status.runtime}`,
    `epoch ${status.epoch}`,
    `spec revision ${status.spec_revision}`,
    `view revision ${status.view_revision}`,
    `as of ${moment(status.at)}`,
  ].join(" · ");
}

// Tells a screen reader what the eye sees at once; only when it became different.
let announced = "";
function announce(status) {
  const text = `${status.name} is ${status.state}, ${status.ready} of ${status.desired} ready`;
  if (announced && announced !== text) say(byId("heard"), text);
  announced = text;
}

// The last row of a history by the names of its columns; null: there is none.
function newest(history) {
  const row = history?.rows.at(-1);
  return row ? Object.fromEntries(history.columns.map((name, index) => [name, row[index]])) : null;
}
