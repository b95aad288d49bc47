// Signing in: by a one-time link, by the API's token, or by whatever already proves who asks.

function showSigning(why, direct) {
  byId("sign-out").hidden = true;
  show(byId("shown"), false);
  show(byId("lost"), false);
  say(byId("signing-why"), why);
  show(byId("signing-form"), !direct);
  show(byId("signing-hint"), !direct);
  show(byId("signing-direct"), Boolean(direct));
  if (safeAddress(direct)) byId("signing-address").href = direct;
  if (!byId("signing").hidden) return;
  show(byId("signing"), true);
  byId("token").focus();
}

function safeAddress(address) {
  return /^https?:\/\//.test(address ?? "");
}

// Returns a promise of a session, by *proof*: {token} or {code}.
async function signIn(proof) {
  const begun = await put("api/v1/session", proof);
  session.begin(begun.session);
}

async function signOut() {
  try {
    await put("api/v1/session/end", {});
  } catch {
    // it ends by itself, a little later
  } finally {
    session.end();
  }
}

function listenToSigning(then) {
  byId("signing-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = byId("token");
    say(byId("signing-fault"), "");
    try {
      await signIn({ token: field.value });
      field.value = "";
      show(byId("signing"), false);
      byId("main").focus();
      then();
    } catch (error) {
      say(byId("signing-fault"), signingFault(error));
      field.select();
    }
  });
}

function signingFault(error) {
  if (error.status === 401 || error.status === 403) return "This is not the token of this cluster.";
  if (error.status === 429) return "Too many tries. Wait a little, and try again.";
  return `That did not work: ${error.message}`;
}
