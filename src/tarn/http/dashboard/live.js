// Keeps what is known fresh: by a stream where one comes through, by asking otherwise.

const EVERY_MS = 1000;
const LEAST_MS = 100;
const HIDDEN_MS = 10000;
const AGAIN_MS = 5000;
const SELDOM_MS = 60000;

const wait = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

// Reads server-sent events by fetch, since an EventSource sends no headers. Calls heard(event,
// data) for each; returns when the stream ends, throws when it breaks.
async function readStream(path, heard, signal) {
  const options = { headers: headers({ Accept: "text/event-stream" }), cache: "no-store", signal };
  const response = await fetch(BASE + path, options);
  if (!response.ok) throw new AskError(response.status, null);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const messages = (rest + value).split("\n\n");
    rest = messages.pop();
    for (const message of messages) tell(message, heard);
  }
}

function tell(message, heard) {
  let event = "";
  const data = [];
  for (const line of message.split("\n")) {
    if (line.startsWith("event: ")) event = line.slice(7);
    if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  heard(event, data.length ? JSON.parse(data.join("\n")) : null);
}

// Calls look() whenever something may have changed: a stream's word, or a second without one.
class Live {
  constructor(look) {
    this.look = look; // (news: whether a stream said that something changed) => promise
    this.news = false;
    this.streaming = false;
    this.ended = new AbortController();
    this.wake = () => {};
  }

  start() {
    document.addEventListener("visibilitychange", () => this.#seen(), this.#until);
    this.#turn();
    this.#seen();
  }

  stop() {
    this.ended.abort();
    this.watching?.abort();
    this.wake();
  }

  get #until() {
    return { signal: this.ended.signal };
  }

  // A page that nobody sees holds no stream, of which a browser has six for one address.
  #seen() {
    this.watching?.abort();
    this.streaming = false;
    if (document.hidden || PREFIXED || this.ended.signal.aborted) return;
    this.watching = new AbortController();
    this.#follow(this.watching.signal);
    this.wake();
  }

  async #follow(signal) {
    for (let again = AGAIN_MS; !signal.aborted; again = Math.min(SELDOM_MS, 2 * again)) {
      try {
        await readStream("api/v1/stream", () => this.#heard(), signal);
      } catch {
        // it broke: whoever asks meanwhile says why
      }
      if (this.streaming) again = AGAIN_MS;
      this.streaming = false;
      await wait(again, signal);
    }
  }

  #heard() {
    this.streaming = true;
    this.hurry();
  }

  // Something changed, or somebody wants to see whether it did.
  hurry() {
    this.news = true;
    this.wake();
  }

  async #turn() {
    while (!this.ended.signal.aborted) {
      const began = performance.now();
      const news = this.news;
      this.news = false;
      await this.look(news);
      // a large answer over a slow line is not asked for all the time
      const took = performance.now() - began;
      await wait(Math.max(LEAST_MS, 2 * took));
      await this.#woken(document.hidden ? HIDDEN_MS : Math.max(EVERY_MS, 4 * took) - LEAST_MS);
    }
  }

  #woken(ms) {
    if (this.news) return null;
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => (clearTimeout(timer), done());
    });
  }
}
