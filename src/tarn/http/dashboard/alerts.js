// What is wrong now, what it means, and what to do about it.

const ALERT_TONES = { error: "bad", critical: "bad", warning: "warn", info: "calm" };

function showAlerts({ alerts, status }) {
  const rows = alerts ? alerts.alerts.filter((one) => one.active) : status.troubles;
  show(byId("alerts"), rows.length > 0);
  const title = rows.length ? `Alerts (${rows.length})` : "Alerts";
  say(byId("alerts-title"), title);
  const key = (row) => `${row.code} ${row.subject} ${row.message}`;
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
  mark(item, "data-tone", ALERT_TONES[alert.severity] ?? "warn");
  say(head, alert.title || alert.message);
  say(where, [alert.subject, alert.code, known(alert.since) && `since ${moment(alert.since)}`].filter(Boolean).join(" · "));
  say(what, sentences(alert.title && alert.message, alert.meaning));
  show(what, Boolean(what.textContent));
  say(fix, alert.next_step ? sentences(`What to do: ${alert.next_step}`) : "");
  show(fix, Boolean(alert.next_step));
}
