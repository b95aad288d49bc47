// Who looks at the page, as far as the page knows: a session in a header, never in an address.

const SESSION = "tarn-session";

// The master's own root, under whatever prefix a proxy shows it.
const BASE = location.pathname.replace(/\/dashboard\/?$/, "") + "/";
// A proxy that shows the master under a prefix of its own may keep a stream until it ends, which
// is never: there the page asks again and again instead.
const PREFIXED = BASE !== "/";

// Where nothing but a session proves who looks, nobody without one needs to ask.
const SIGNS_IN = document.body.dataset.proof === "session" && !PREFIXED;

const session = {
  get: () => ofTab.get(SESSION),
  begin: (value) => ofTab.set(SESSION, value),
  end: () => ofTab.drop(SESSION),
};

// Takes a one-time code out of the address before anything else can see it.
function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}
