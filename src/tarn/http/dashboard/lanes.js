// The life of each instance as a lane of time. The status says since when an instance is in its
// state and when it was asked for; the events say what was between, as long as they are kept.

const STATES = ["requested", "starting", "ready", "suspect", "draining", "stopped", "failed"];
const LEAST_SPAN_S = 120;
const MOST_SPAN_S = 3600;
const STEPS_S = [120, 300, 600, 900, 1800, 3600];

const STEP_OF = {
  "TARN-1101": "starting",
  "TARN-1102": "ready",
  "TARN-1103": "draining",
  "TARN-1106": "suspect",
  "TARN-1107": "ready",
  "TARN-1110": "ready",
  "TARN-1113": "draining",
  "TARN-1122": "suspect",
  "TARN-1132": "ready",
};
// What was before a state, where no event is left that says so.
const BEFORE = { ready: "starting", suspect: "ready", draining: "ready", stopped: "ready", failed: "starting" };

const stateOf = ({ state, suspect }) => (suspect && state === "ready" ? "suspect" : state);

// The steps that events tell of, by instance: {state, at}, at in Unix seconds.
function stepsBySubject(events) {
  const steps = new Map();
  for (const { code, subject, first } of events) {
    if (!STEP_OF[code]) continue;
    if (!steps.has(subject)) steps.set(subject, []);
    steps.get(subject).push({ state: STEP_OF[code], at: first });
  }
  return steps;
}

// Returns an instance's life as steps, the oldest first; each lasts until the next.
function lifeOf(instance, now, told) {
  const state = stateOf(instance);
  const asked = now - instance.age_s;
  const since = now - instance.state_for_s;
  // being suspect is a mark on ready: the status does not say since when
  const until = state === "suspect" ? now : since;
  const between = told.filter(({ at }) => at > asked && at < until).sort((a, b) => a.at - b.at);
  if (!between.length && BEFORE[state]) between.push({ state: BEFORE[state], at: asked });
  const life = [{ state: "requested", at: asked }, ...between];
  return life.at(-1).state === state ? life : [...life, { state, at: until }];
}

// How many seconds the lanes of *status* show: enough for the oldest, within reason.
function laneSpan(status) {
  const oldest = Math.max(LEAST_SPAN_S, ...status.instances.map((one) => one.age_s));
  return STEPS_S.find((step) => step >= oldest) ?? MOST_SPAN_S;
}

// Returns the parts of a life within the last *span* seconds: {state, from, to, lasts}, from and to
// as shares of the span.
function laneParts(life, now, span) {
  const parts = life.map(({ state, at }, index) => {
    const end = index + 1 < life.length ? life[index + 1].at : now;
    return { state, lasts: end - at, from: 1 - (now - at) / span, to: 1 - (now - end) / span };
  });
  return parts.filter((part) => part.to > 0 && part.lasts > 0.05);
}

function drawLane(lane, life, now, span) {
  const parts = laneParts(life, now, span);
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
