// The life of each instance as a lane of time. The status says since when an instance is in its
// state and when it was asked for; what was between is what this page saw of it.

const STATES = ["requested", "starting", "ready", "suspect", "draining", "stopped", "failed"];
const LEAST_SPAN_S = 120;
const MOST_SPAN_S = 3600;
const STEPS_S = [120, 300, 600, 900, 1800, 3600];

const lives = new Map();

const stateOf = ({ state, suspect }) => (suspect && state === "ready" ? "suspect" : state);

// Takes in one status. A life is a list of {state, at}, at in Unix seconds, the oldest first.
function learn(status) {
  const all = [...status.ended, ...status.instances];
  for (const instance of all) learnOne(instance, status.at);
  const alive = new Set(all.map((one) => one.id));
  for (const id of lives.keys()) if (!alive.has(id)) lives.delete(id);
}

function learnOne(instance, now) {
  const state = stateOf(instance);
  const life = lives.get(instance.id) ?? [];
  if (life.at(-1)?.state === state) return;
  const asked = now - instance.age_s;
  const since = now - instance.state_for_s;
  if (!life.length) life.push({ state: "requested", at: asked });
  if (life.length === 1 && life[0].state === "requested" && state === "requested") {
    lives.set(instance.id, life);
    return;
  }
  if (life.length === 1 && PASSED[state]) life.push({ state: PASSED[state], at: asked, guessed: true });
  // being suspect is a mark on a state, which does not say since when
  const at = state === "suspect" ? now : Math.max(since, life.at(-1).at);
  life.push({ state, at });
  lives.set(instance.id, life);
}

// What came before a state that this page saw first.
const PASSED = { ready: "starting", suspect: "ready", draining: "ready", stopped: "ready", failed: "starting" };

// How many seconds the lanes of *status* show: enough for the oldest, within reason.
function laneSpan(status) {
  const oldest = Math.max(LEAST_SPAN_S, ...status.instances.map((one) => one.age_s));
  return STEPS_S.find((step) => step >= oldest) ?? MOST_SPAN_S;
}

// Returns the parts of a life within the last *span* seconds: {state, from, to, lasts}, from and to
// as shares of the span.
function laneParts(id, now, span) {
  const life = lives.get(id) ?? [];
  const parts = life.map(({ state, at }, index) => {
    const end = index + 1 < life.length ? life[index + 1].at : now;
    return { state, lasts: end - at, from: 1 - (now - at) / span, to: 1 - (now - end) / span };
  });
  return parts.filter((part) => part.to > 0 && part.lasts > 0.05);
}

function drawLane(lane, instance, status, span) {
  const parts = laneParts(instance.id, status.at, span);
  const rects = parts.map((part) => {
    const from = Math.max(0, part.from);
    const width = Math.max(0.004, part.to - from);
    return svg("rect", {
      class: part.state, x: `${100 * from}%`, y: 0, width: `${100 * width}%`, height: "100%", rx: 2,
    });
  });
  lane.replaceChildren(svg("rect", { class: "track", width: "100%", height: "100%", rx: 3 }), ...rects);
  mark(lane, "aria-label", parts.map((part) => `${part.state} for ${lasting(part.lasts)}`).join(", then "));
}
