// Why the size is what it is: in words, by signals, and by the last decisions.

function showSize({ scaling }) {
  keepLines(byId("size-held"), sizeFacts(scaling));
  keep(byId("signals-rows"), scaling.signals, (one) => one.name, makeSignal, fillSignal);
  const rows = [...scaling.decisions].reverse();
  keep(byId("decisions-list"), rows, (one) => one.number, makeHappening, fillDecision);
  show(byId("decisions-none"), rows.length === 0);
}

function sizeFacts(scaling) {
  const wants = known(scaling.wanted) ? `wants ${scaling.wanted}` : "has no opinion";
  const lines = [`The policy ${scaling.policy} ${wants}${scaling.reason ? `: ${scaling.reason}` : ""}.`];
  for (const one of scaling.held) {
    const left = known(one.left_s) ? `, for another ${lasting(one.left_s)}` : "";
    lines.push(`Held back by ${one.reason}${left}.`);
  }
  return lines;
}

const makeSignal = () =>
  rowOf([
    { name: "signal", tag: "th", parts: twoLines() },
    { name: "value", class: "number" },
    { name: "age" },
  ]);

function fillSignal({ cell }, signal) {
  fillTwo(cell.signal, signal.name, [signal.read && "read by the policy", signal.reason].filter(Boolean).join("; "));
  say(cell.value, signalWords(signal));
  say(cell.age, known(signal.age_s) ? lasting(signal.age_s) : "");
}

function signalWords({ value, unit }) {
  if (!known(value)) return UNKNOWN;
  return unit === "s" && Math.abs(value) < 1 ? milliseconds(1000 * value) : `${amount(value)} ${unit}`;
}

function fillDecision(item, decision) {
  const differs = known(decision.wanted) && decision.wanted !== decision.desired;
  fillHappening(item, {
    at: decision.at,
    tag: [differs && `wanted ${decision.wanted}`, `size ${decision.desired}`].filter(Boolean).join(", "),
    text: [`by ${decision.by}: ${decision.reason}`, decision.held_back].filter(Boolean).join("; "),
    request: decision.request,
  });
}
