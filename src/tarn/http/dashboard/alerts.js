// What is wrong now, what it means, and what to do about it.

const TONE_OF = { alert: "bad", warning: "warn", info: null };

function showAlerts({ alerts }) {
  const rows = alerts.alerts.filter((one) => one.active);
  show(byId("alerts"), rows.length > 0);
  const title = rows.length ? `Alerts (${rows.length})` : "Alerts";
  say(byId("alerts-title"), title);
  const key = (row) => `${row.code} ${row.subject} ${row.since}`;
  keep(byId("alerts-list"), rows, key, makeAlert, fillAlert);
}

function makeAlert() {
  const item = el("li");
  item.slots = { head: el("strong"), where: el("span", { class: "quiet" }), what: el("p"), fix: el("p", { class: "quiet" }) };
  item.append(item.slots.head, " ", item.slots.where, item.slots.what, item.slots.fix);
  return item;
}

function fillAlert(item, alert) {
  const { head, where, what, fix } = item.slots;
  mark(item, "data-tone", TONE_OF[alert.severity] ?? "calm");
  say(head, alert.title || alert.message);
  say(where, [alert.subject, alert.code, known(alert.since) && `since ${moment(alert.since)}`].filter(Boolean).join(" · "));
  sayProse(what, sentences(alert.title && alert.message, alert.meaning));
  show(what, Boolean(what.textContent));
  sayProse(fix, alert.next_step ? sentences(`What to do: ${alert.next_step}`) : "");
  show(fix, Boolean(alert.next_step));
}
