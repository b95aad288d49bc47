// Who follows the view, and how far behind they are.

function showFollowers({ status }) {
  const { followers } = status;
  show(byId("followers"), followers.length > 0);
  const make = () =>
    rowOf([
      { name: "name", tag: "th", class: "reason", parts: twoLines() },
      { name: "state", parts: [el("span", { class: "pill" }), el("span", { class: "quiet reason" })] },
      { name: "view", class: "number", parts: twoLines() },
      { name: "heard" },
    ]);
  keep(byId("followers-rows"), followers, (one) => one.name, make, (row, one) => fillFollower(row, one, status));
}

function fillFollower({ cell }, follower, status) {
  fillTwo(cell.name, follower.name, follower.required ? "drains wait for it" : "");
  const behind = status.view_revision - follower.revision;
  const [word, tone] = followerState(follower, behind);
  const [pill, why] = cell.state.children;
  say(pill, word);
  mark(pill, "data-tone", tone);
  say(why, follower.error);
  show(why, Boolean(follower.error));
  const lag = follower.revision >= 0 && behind > 0 ? `${behind} behind` : "";
  fillTwo(cell.view, follower.revision >= 0 ? String(follower.revision) : UNKNOWN, lag);
  say(cell.heard, known(follower.age_s) ? `${lasting(follower.age_s)} ago` : "never");
}

function followerState({ lost, error, revision }, behind) {
  if (lost) return ["lost", "bad"];
  if (error) return ["in trouble", "bad"];
  if (revision < 0) return ["no message yet", "calm"];
  return behind > 0 ? ["behind", "warn"] : ["up to date", "good"];
}
