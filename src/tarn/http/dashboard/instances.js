// The instances: state, life so far, what they wait for, and what may be done to each.

const MOST_INSTANCES = 60;
const STAYS_S = 60;
let allShown = false;

const WAITS = {
  place: "waits for a place to run",
  models: "loads its models",
  answer: "does not answer",
  followers: "waits until followers send it no more requests",
  quiesce: "waits until nothing is on its way to it",
  requests: "finishes its requests",
  unload: "waits for its models to unload",
  sessions: "waits for open sessions to end",
  replacement: "serves until a replacement does",
  test: "gets test requests",
  end: "is being stopped",
};

function beginInstances() {
  byId("legend").append(
    ...STATES.filter((state) => state !== "stopped").map((state) =>
      el("li", { "data-state": state }, el("span", { class: "key", "aria-hidden": "true" }), state),
    ),
  );
  byId("instances-more").addEventListener("click", () => {
    allShown = !allShown;
    showInstances(seen);
  });
  byId("master-log").addEventListener("click", () => openLog(""));
}

function showInstances({ status, events }) {
  const { ended } = status;
  // what just failed stays in sight for a while, so that nobody misses it
  const lately = (one) => one.state === "failed" && one.state_for_s < STAYS_S;
  const instances = [...status.instances, ...ended.filter(lately)];
  const span = laneSpan(status);
  const steps = stepsBySubject(events.events);
  const fill = (row, one) => {
    fillInstance(row, one);
    drawLane(row.lane, lifeOf(one, status.at, steps.get(one.id) ?? []), status.at, span);
  };
  say(byId("lane-title"), `Last ${lasting(span)}`);
  const shown = allShown ? instances : instances.slice(0, MOST_INSTANCES);
  keep(byId("instances-rows"), shown, (one) => one.id, makeInstance, fill);
  show(byId("instances-none"), instances.length === 0);
  show(byId("instances-more"), instances.length > MOST_INSTANCES);
  say(byId("instances-more"), allShown ? "Show fewer" : `Show all ${instances.length}`);
  show(byId("master-log"), mayAct());
  show(byId("ended"), ended.length > 0);
  say(byId("ended-title"), `${counted(ended.length, "instance")} ended`);
  keep(byId("ended-rows"), [...ended].reverse(), (one) => one.id, makeEnded, (row, one) => fillEnded(row, one, status));
}

function makeInstance({ id }) {
  const row = rowOf([
    { name: "id", tag: "th", class: "mono" },
    { name: "state", parts: [stateMark(), el("span", { class: "quiet reason" })] },
    { name: "lane", class: "wide", parts: [svg("svg", { class: "lane", role: "img" }), el("span", { class: "quiet" })] },
    { name: "node", label: "Address", class: "reason" },
    { name: "models", label: "Models", parts: twoLines() },
    { name: "busy", class: "number", label: "Busy" },
    { name: "acts" },
  ]);
  row.log = el("button", { type: "button", class: "small", "aria-label": `Log of ${id}`, onclick: () => openLog(id) }, "Log");
  row.drain = el("button", { type: "button", class: "small", "aria-label": `Drain ${id}`, onclick: () => askDrain(id) }, "Drain…");
  row.cell.acts.append(el("div", { class: "acts" }, row.log, row.drain));
  row.lane = row.cell.lane.firstElementChild;
  say(row.cell.id, id);
  return row;
}

function fillInstance({ cell, log, drain }, instance) {
  fillState(cell.state.firstElementChild, stateOf(instance));
  const why = instanceWords(instance);
  say(cell.state.lastElementChild, why);
  show(cell.state.lastElementChild, Boolean(why));
  say(cell.lane.lastElementChild, `${instance.state} for ${lasting(instance.state_for_s)}, asked for ${lasting(instance.age_s)} ago`);
  say(cell.node, instance.http ?? instance.node ?? UNKNOWN);
  fillModels(cell.models, instance.models);
  say(cell.busy, amount(instance.busy));
  show(log, mayAct());
  show(drain, mayAct() && !OVER.has(instance.state));
  drain.disabled = instance.state === "draining";
}

const OVER = new Set(["stopped", "failed"]);

function instanceWords({ state, suspect, unwell, reason, waits }) {
  const words = [(state === "ready" && (suspect || unwell?.message)) || reason];
  if (waits) {
    const named = waits.followers?.length ? ` (${waits.followers.join(", ")})` : "";
    const until = known(waits.until_in_s) ? `, for ${lasting(waits.until_in_s)} at most` : "";
    words.push(`${WAITS[waits.for] ?? waits.for}${named}${until}`);
  }
  return words.filter(Boolean).join("; ");
}

function fillModels(cell, models) {
  const ready = models.filter((one) => one.state === "READY").length;
  const rest = models.filter((one) => one.state !== "READY").slice(0, 3);
  const faults = rest.map((one) => [`${one.name} ${one.state.toLowerCase()}`, one.reason].filter(Boolean).join(": "));
  fillTwo(cell, models.length ? `${ready} of ${models.length} ready` : UNKNOWN, faults.join("; "));
}

const makeEnded = ({ id }) => {
  const row = rowOf([
    { name: "id", tag: "th", class: "mono" },
    { name: "state", parts: [stateMark()] },
    { name: "when" }, { name: "lived" }, { name: "why", class: "reason" }, { name: "acts" },
  ]);
  say(row.cell.id, id);
  row.log = el("button", { type: "button", class: "small", "aria-label": `Log of ${id}`, onclick: () => openLog(id) }, "Log");
  row.cell.acts.append(el("div", { class: "acts" }, row.log));
  return row;
};

function fillEnded({ cell, log }, instance, status) {
  fillState(cell.state.firstElementChild, instance.state);
  say(cell.when, moment(status.at - instance.state_for_s));
  say(cell.lived, lasting(instance.age_s - instance.state_for_s));
  say(cell.why, instance.reason);
  show(log, mayAct());
}
