// What may be done to the cluster, by those who may: each is asked first, and each is a PUT.

const mayAct = () => Boolean(seen.me?.may?.includes("admin"));

// Asks again who looks: what proves that this page wrote it is good for an hour, at one master.
async function command(verb, body, ifMatch = null) {
  seen.me = await ask("api/v1/me");
  return put(`api/v1/${verb}`, body, { ifMatch, csrf: PREFIXED ? seen.me.csrf : null });
}

const told = (answer, otherwise) => `Done: ${answer?.message || otherwise}.`;

function askScale() {
  const { status } = seen;
  const { min, max } = status.limits;
  const size = el("input", {
    type: "number", min, max, step: 1, value: String(status.desired), required: true, inputmode: "numeric",
  });
  const wanted = () => (size.value === "" ? NaN : Number(size.value));
  const right = () => Number.isInteger(wanted()) && wanted() >= min && wanted() <= max;
  askFirst({
    title: `Scale ${status.name} by hand`,
    fields: field("Instances", size),
    fault: () => (right() ? "" : `Enter a whole number from ${min} to ${max} (the limits).`),
    what: () => `${scaleWords(status, wanted())} This size stays until somebody lets the policy choose again.`,
    yes: () => (right() ? `Scale to ${wanted()}` : "Scale"),
    act: async () => told(await command("scale", { replicas: wanted() }, status.spec_revision), `the size is ${wanted()}`),
  });
}

function scaleWords(status, wanted) {
  const more = wanted - status.desired;
  if (more > 0) return `${counted(more, "more instance")} will be asked for and started.`;
  if (more === 0) return `There are ${status.desired} already; nothing is started or stopped.`;
  const fewer = `${counted(-more, "instance")} will get no new request, finish what they have, and stop.`;
  return wanted === 0 ? `${fewer} Then nothing serves.` : fewer;
}

function askAutomatic() {
  const { status } = seen;
  askFirst({
    title: "Let the policy choose the size",
    fields: [],
    what: () => `The size of ${status.manual}, which a person set, no longer applies. The policy sizes the fleet between ${status.limits.min} and ${status.limits.max} again.`,
    yes: "Let the policy choose",
    act: async () => told(await command("scale", { replicas: null }, status.spec_revision), "the policy decides"),
  });
}

function askAdapt() {
  const { status } = seen;
  const number = (value) => el("input", { type: "number", min: 0, step: 1, value: String(value), required: true, inputmode: "numeric" });
  const [min, max] = [number(status.limits.min), number(status.limits.max)];
  const both = () => [min, max].map((one) => (one.value === "" ? NaN : Number(one.value)));
  const right = () => both().every((one) => Number.isInteger(one) && one >= 0) && both()[0] <= both()[1];
  askFirst({
    title: "Change the limits",
    fields: [...field("At least", min), ...field("At most", max)],
    fault: () => (right() ? "" : "Enter two whole numbers, the first not larger than the second."),
    what: () => `The policy sizes the fleet between ${both()[0]} and ${both()[1]}; a size set by hand ends.`,
    yes: "Change them",
    act: async () => {
      const [low, high] = both();
      return told(await command("adapt", { min: low, max: high }, status.spec_revision), "the limits changed");
    },
  });
}

function askPause() {
  const spans = [["15m", "15 minutes"], ["30m", "30 minutes"], ["1h", "1 hour"], ["4h", "4 hours"], ["24h", "24 hours"]];
  const lasts = el("select", {}, ...spans.map(([value, text]) => el("option", { value, selected: value === "30m" }, text)));
  const why = el("input", { type: "text", maxlength: 200, autocomplete: "off" });
  askFirst({
    title: "Pause scaling",
    fields: [...field("For", lasts), ...field("Why (others see it)", why)],
    what: () => `For ${lasts.selectedOptions[0].textContent} the policy does not change the size. Dead instances are still replaced.`,
    yes: "Pause",
    act: async () => told(await command("pause", { for: lasts.value, reason: why.value }, seen.status.spec_revision), "paused"),
  });
}

function askResume() {
  askFirst({
    title: "Resume",
    fields: [],
    what: () => "This ends a pause, replaces silent instances again, and resumes launching if it was given up.",
    yes: "Resume",
    act: async () => told(await command("resume", {}, seen.status.spec_revision), "scaling and launching resume"),
  });
}

function askDrain(id) {
  askFirst({
    title: `Drain ${id}`,
    fields: [],
    what: () => `Another instance starts first. Once it serves all that ${id} serves, ${id} gets no new request, finishes what it has, and stops.`,
    yes: "Drain it",
    act: async () => told(await command("drain", { instance: id }), `${id} is being replaced`),
  });
}

function askDown() {
  const { name } = seen.status;
  const typed = el("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  askFirst({
    title: `End ${name}`,
    fields: field(`Type ${name} to confirm`, typed),
    fault: () => (typed.value.trim() === name ? "" : "Every instance drains and stops, then the master ends. Nothing serves after that, and this page ends too."),
    what: () => "Every instance drains and stops, then the master ends. Nothing serves after that, and this page ends too.",
    yes: `End ${name}`,
    danger: true,
    act: async () => told(await command("down", {}), `${name} is ending`),
  });
}

const ACTIONS = [
  { text: "Scale…", act: askScale, when: () => true },
  { text: "Automatic…", act: askAutomatic, when: ({ status }) => status.manual !== null },
  { text: "Limits…", act: askAdapt, when: () => true },
  { text: "Pause…", act: askPause, when: ({ status }) => !status.pause },
  { text: "Resume…", act: askResume, when: ({ status }) => held(status) },
  { text: "End…", act: askDown, when: () => true, danger: true },
];

const held = ({ pause, holds }) =>
  Boolean(pause || holds.halted || holds.failures_in_a_row || known(holds.frozen_for_s));

function showActions(seen) {
  const over = ["stopping", "stopped", "failed"].includes(seen.status.state) || seen.status.stale;
  const shown = mayAct() && !over ? ACTIONS.filter((one) => one.when(seen)) : [];
  const make = ({ text, act, danger }) => el("button", { type: "button", class: danger && "danger", onclick: act }, text);
  keep(byId("actions"), shown, ({ text }) => text, make, () => {});
}
