// The models that whoever looks may see, over all instances.

function showModels({ models }) {
  const make = () =>
    rowOf([
      { name: "name", tag: "th", class: "reason" },
      { name: "state", parts: twoLines() },
      { name: "requests", class: "number" }, { name: "failures", class: "number" },
      { name: "latency", class: "number", parts: twoLines() }, { name: "queue", class: "number" },
      { name: "cached", class: "number" },
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
  const first = model.first_response_ms;
  const firstText = first == null ? "" : `first response ${milliseconds(first)}`;
  fillTwo(cell.latency, milliseconds(model.latency_ms), firstText);
  say(cell.queue, milliseconds(model.queue_ms));
  const share = model.cache_hit_share;
  say(cell.cached, share == null ? "" : `${Math.round(100 * share)} %`);
}
