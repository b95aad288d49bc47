// Lists of what happened, the newest first.

const FEW_EVENTS = 40;
let eventsShown = FEW_EVENTS;

function makeHappening() {
  const item = el("li");
  item.slots = { time: el("time"), tag: el("span", { class: "tag" }), text: el("span"), by: el("span", { class: "quiet by" }) };
  item.append(item.slots.time, el("div", {}, item.slots.tag, item.slots.text, " ", item.slots.by));
  return item;
}

// *request*: who asked for it, or null where nobody did.
function fillHappening(item, { at, tag, text, tone, request }) {
  say(item.slots.time, moment(at));
  mark(item.slots.time, "datetime", iso(at));
  mark(item.slots.time, "title", iso(at));
  say(item.slots.tag, tag);
  sayProse(item.slots.text, text);
  say(item.slots.by, request ? `asked by ${request.user}, from ${request.address || "here"}` : "");
  mark(item.slots.by, "title", request && `request ${request.id}, proven by ${request.via}`);
  mark(item, "data-tone", tone);
}

function beginEvents() {
  byId("events-filter").addEventListener("input", () => showEvents(seen));
  byId("events-more").addEventListener("click", () => {
    eventsShown += 5 * FEW_EVENTS;
    showEvents(seen);
  });
}

function showEvents({ events }) {
  const wanted = byId("events-filter").value.trim().toLowerCase();
  const fits = (one) => `${one.code} ${one.severity} ${one.subject} ${one.message} ${one.request?.user ?? ""}`.toLowerCase().includes(wanted);
  const rows = events.events.filter(fits).reverse();
  keep(byId("events-list"), rows.slice(0, eventsShown), (one) => one.id, makeHappening, fillEvent);
  show(byId("events-none"), rows.length === 0);
  show(byId("events-more"), rows.length > eventsShown);
}

function fillEvent(item, event) {
  const times = event.count > 1 ? ` (${event.count} times)` : "";
  const severity = event.severity === "info" ? "" : `${event.severity} · `;
  fillHappening(item, {
    at: event.last,
    tag: `${severity}${event.code}`,
    text: `${event.subject}: ${event.message}${times}`,
    tone: TONE_OF[event.severity],
    request: event.request,
  });
}
