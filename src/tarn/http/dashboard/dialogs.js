// The one dialog that asks before anything is done: it says what will happen.

// Asks: {title, fields: [node], what: () => text, yes, danger, fault: () => text, act: () => promise
// of what to say}. While fault() says something, yes cannot be pressed.
function askFirst(asked) {
  const dialog = byId("asking");
  const form = byId("asking-form");
  const yes = byId("asking-yes");
  say(byId("asking-title"), asked.title);
  byId("asking-fields").replaceChildren(...asked.fields);
  say(byId("asking-fault"), "");
  yes.classList.toggle("danger", Boolean(asked.danger));
  const retell = () => {
    const fault = asked.fault?.() ?? "";
    say(byId("asking-what"), fault || asked.what());
    say(yes, typeof asked.yes === "function" ? asked.yes() : asked.yes);
    yes.disabled = Boolean(fault);
  };
  form.oninput = retell;
  form.onsubmit = (event) => {
    event.preventDefault();
    obey(asked, dialog, yes);
  };
  byId("asking-no").onclick = () => dialog.close();
  retell();
  dialog.showModal();
  (byId("asking-fields").querySelector("input, select") ?? byId("asking-no")).focus();
}

async function obey(asked, dialog, yes) {
  yes.disabled = true;
  say(byId("asking-fault"), "");
  try {
    const said = await asked.act();
    dialog.close();
    saySoon(said);
    live?.hurry();
  } catch (error) {
    say(byId("asking-fault"), refusal(error));
  } finally {
    yes.disabled = false;
  }
}

function refusal(error) {
  if (error.status === 412) return "Somebody else changed the cluster meanwhile. Check its state, then try again.";
  if (error.status === 401) return "Your session has ended: close this, and sign in.";
  if (!error.status) return `It is not known whether the master received it: ${error.message}. Check before you try again.`;
  return error.message;
}

let saidTimer = 0;
function saySoon(text) {
  say(byId("said"), text);
  clearTimeout(saidTimer);
  saidTimer = setTimeout(() => say(byId("said"), ""), 8000);
}

// A labelled field of a dialog; returns [label, field].
let fields = 0;
function field(label, node) {
  fields += 1;
  node.id = `field-${fields}`;
  return [el("label", { for: node.id }, label), node];
}
