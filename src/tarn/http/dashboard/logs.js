// The end of a log, of one instance or of the master, and what is added to it.

const LOG_LINES = 400;
const LOG_EVERY_MS = 2000;

let logOpen = null;

function beginLogs() {
  byId("log-close").addEventListener("click", () => byId("log").close());
  byId("log").addEventListener("close", () => {
    logOpen?.abort();
    logOpen = null;
  });
}

// *id*: of an instance; empty: the master's.
async function openLog(id) {
  logOpen?.abort();
  const open = new AbortController();
  logOpen = open;
  say(byId("log-title"), id ? `Log of ${id}` : "Log of the master");
  say(byId("log-fault"), "");
  say(byId("log-lines"), "Reading…");
  byId("log-follow").checked = true;
  byId("log").showModal();
  byId("log-lines").focus();
  while (!open.signal.aborted) {
    if (byId("log-follow").checked) await readLog(id, open.signal);
    await wait(LOG_EVERY_MS, open.signal);
  }
}

async function readLog(id, signal) {
  try {
    const tail = await ask(`api/v1/logs?instance=${encodeURIComponent(id)}&lines=${LOG_LINES}`);
    if (signal.aborted) return;
    say(byId("log-fault"), "");
    fillLog(tail.lines.join("\n"));
  } catch (error) {
    if (signal.aborted) return;
    say(byId("log-fault"), error.message);
    if (byId("log-lines").textContent === "Reading…") fillLog("");
  }
}

// Stays at the end where it was at the end.
function fillLog(text) {
  const lines = byId("log-lines");
  const first = lines.textContent === "Reading…";
  const atEnd = first || lines.scrollHeight - lines.scrollTop - lines.clientHeight < 30;
  say(lines, text || "Nothing yet.");
  if (atEnd) lines.scrollTop = lines.scrollHeight;
}
