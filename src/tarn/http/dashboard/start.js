// What is known, where it comes from, and what shows it.

const seen = { me: null };

// Name in `seen`, path, and how old it may be; news makes those with a true asked for at once.
const SOURCES = [
  { name: "status", path: () => "api/v1/status", everyMs: 0, news: true },
  { name: "scaling", path: () => "api/v1/scaling", everyMs: 2000, news: true },
  { name: "alerts", path: () => "api/v1/alerts", everyMs: 2000, news: true },
  { name: "events", path: () => "api/v1/events", everyMs: 2000, news: true },
  { name: "models", path: () => "api/v1/models", everyMs: 3000, news: false },
  { name: "history", path: () => `api/v1/history?since_s=${spanShown()}`, everyMs: 10000, news: false },
];
const SHOWN = [
  showHead, showActions, showAlerts, showInstances, showHours,
  showSize, showModels, showEvents, showFollowers,
];

let live = null;
let answeredAt = performance.now();

async function look(news) {
  try {
    await Promise.all(SOURCES.filter((one) => due(one, news)).map(take));
  } catch (error) {
    if (error.status === 401) return begin("Your session has ended.");
    if (error.status === 403) return begin();
    return showLost(error);
  }
  answeredAt = performance.now();
  showAll();
}

function due(source, news) {
  return (news && source.news) || performance.now() - (source.askedAt ?? -Infinity) >= source.everyMs;
}

async function take(source) {
  source.askedAt = performance.now();
  seen[source.name] = await ask(source.path());
}

function showAll() {
  show(byId("lost"), false);
  show(byId("shown"), true);
  for (const one of SHOWN) {
    try {
      one(seen);
    } catch (error) {
      reportError(error); // the other parts are shown all the same
    }
  }
  showPulse(live.streaming ? "live" : "every second", "good");
}

function showPulse(text, tone) {
  show(byId("pulse"), true);
  say(byId("pulse-text"), text);
  mark(byId("pulse"), "data-tone", tone);
}

function showLost(error) {
  const silent = lasting((performance.now() - answeredAt) / 1000);
  const why = error.status ? ` (${error.message})` : "";
  showPulse("no answer", "bad");
  const ending = ["stopping", "stopped"].includes(seen.status?.state);
  const guess = ending ? "The cluster was ending, and has probably ended by now." : "It may have ended or been replaced.";
  say(byId("lost"), `The master does not answer. ${guess} The page goes on asking.`);
  mark(byId("lost"), "title", `for ${silent}${why}`);
  show(byId("lost"), true);
}

function showClosed({ user }) {
  showPulse("closed", "bad");
  show(byId("shown"), false);
  say(byId("lost"), `You may not look at this cluster. To the master you are ${user}, who may not view it.`);
  show(byId("lost"), true);
}

// Asks who looks, and shows the cluster to them, or asks them to sign in.
async function begin(why = "") {
  live?.stop();
  live = null;
  if (SIGNS_IN && session.get() === null) return showSigning(why);
  try {
    seen.me = await ask("api/v1/me");
  } catch (error) {
    if (error.status !== 401) return retry(error);
    session.end();
    return showSigning(why, error.told.direct);
  }
  show(byId("signing"), false);
  say(byId("user"), seen.me.user ?? "");
  show(byId("user"), Boolean(seen.me.user));
  show(byId("sign-out"), session.get() !== null);
  show(byId("links"), session.get() === null); // a link carries no session
  showDirect(seen.me);
  if (!seen.me.may.includes("view")) return showClosed(seen.me);
  for (const one of SOURCES) one.askedAt = -Infinity;
  live = new Live(look);
  live.start();
}

// Who may less here than by signing in at the master itself is told where that is.
function showDirect({ direct, may }) {
  const useful = safeAddress(direct) && !may.includes("admin");
  if (useful) byId("direct").href = direct;
  show(byId("direct"), Boolean(useful));
}

async function retry(error) {
  showLost(error);
  await wait(2 * EVERY_MS);
  begin();
}

async function start() {
  beginTheme();
  for (const link of ["metrics", "config", "status", "health"]) {
    byId(`link-${link}`).href = BASE + byId(`link-${link}`).getAttribute("href");
  }
  beginInstances();
  beginLogs();
  beginHours(() => {
    SOURCES.find((one) => one.name === "history").askedAt = -Infinity;
    live?.hurry();
  });
  beginEvents();
  listenToSigning(() => begin());
  byId("sign-out").addEventListener("click", async () => {
    await signOut();
    begin("You have signed out.");
  });
  const code = takeCode();
  if (!code) return begin();
  try {
    await signIn({ code });
    await begin();
  } catch {
    await begin("This link was used already, or is too old. `tarn dashboard` prints a new one.");
  }
}

start();
