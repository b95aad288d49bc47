// Asks the master. Every answer is JSON; an error says what was found and what to do.

const ANSWER_WITHIN_MS = 10000;

class AskError extends Error {
  // *id*: of the request, by which it stands in the master's log.
  constructor(status, told, id = null) {
    const where = id && status >= 500 ? ` (request ${id})` : "";
    super((sentence(told) || `the master answered ${status}`) + where);
    this.status = status;
    this.told = told ?? {};
  }
}

function sentence(told) {
  if (!told) return "";
  const found = [told.where, told.found].filter(Boolean).join(": ");
  return [found, told.right, told.next_step].filter(Boolean).join(". ");
}

function headers(more = {}) {
  const own = session.get();
  return own ? { ...more, "X-TARN-Session": own } : more;
}

async function ask(path) {
  return answered(await send(path, { headers: headers({ Accept: "application/json" }) }));
}

async function put(path, body, { ifMatch = null, csrf = null } = {}) {
  const more = { Accept: "application/json", "Content-Type": "application/json" };
  if (ifMatch !== null) more["If-Match"] = `"${ifMatch}"`;
  const query = csrf ? `?csrf=${encodeURIComponent(csrf)}` : "";
  const options = { method: "PUT", headers: headers(more), body: JSON.stringify(body) };
  return answered(await send(path + query, options));
}

function send(path, options) {
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  return fetch(BASE + path, { cache: "no-store", redirect: "error", signal, ...options });
}

async function answered(response) {
  let said = null;
  try {
    said = await response.json();
  } catch (error) {
    // a proxy in between answers in its own words, and a broken answer in none
    if (response.ok) throw error;
  }
  const id = response.headers.get("X-Request-Id");
  if (!response.ok) throw new AskError(response.status, { ...said, ...said?.error }, id);
  return said;
}
