// The models that whoever looks may see, over all instances.

function showModels({ models }) {
  const make = () =>
    rowOf([
      { name: "name", tag: "th", class: "reason" },
      { name: "state", parts: twoLines() },
      { name: "requests", class: "number" }, { name: "failures", class: "number" },
      { name: "latency", class: "number" }, { name: "queue", class: "number" },
    ]);
  keep(byId("models-rows"), models.models, (one) => one.name, make, fillModel);
  show(byId("models-none"), models.models.length === 0);
}

function fillModel({ cell }, model) {
  say(cell.name, model.name);
  const instances = model.instances ?? [];
  const ready = instances.filter((one) => one.state === "READY").length;
  const reasons = [...new Set(instances.map((one) => one.reason).filter(Boolean))].slice(0, 2);
  const where = instances.length ? `on ${ready} of ${instances.length}` : "";
  fillTwo(cell.state, [model.state?.toLowerCase(), where].filter(Boolean).join(" "), reasons.join("; "));
  say(cell.requests, amount(model.requests_per_s));
  say(cell.failures, amount(model.failures_per_s));
  say(cell.latency, milliseconds(model.latency_ms));
  say(cell.queue, milliseconds(model.queue_ms));
}
