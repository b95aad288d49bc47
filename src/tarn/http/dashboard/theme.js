// Light or dark: as the system has it, or as somebody chose, which this browser remembers.

const THEMES = ["auto", "light", "dark"];

function beginTheme() {
  const button = byId("theme");
  const choose = (theme) => {
    mark(document.documentElement, "data-theme", theme === "auto" ? null : theme);
    say(button, `Theme: ${theme}`);
    lasts.set("tarn-theme", theme);
  };
  const chosen = lasts.get("tarn-theme");
  let now = THEMES.includes(chosen) ? chosen : "auto";
  choose(now);
  button.addEventListener("click", () => {
    now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    choose(now);
  });
}
