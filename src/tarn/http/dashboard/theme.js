// Light or dark: as the system has it, or as somebody chose, which this browser remembers.

const THEMES = ["auto", "light", "dark"];
const DARK = matchMedia("(prefers-color-scheme: dark)");

function beginTheme() {
  const button = byId("theme");
  const paint = (theme) => {
    const system = DARK.matches ? "dark" : "light";
    mark(document.documentElement, "data-theme", theme === "auto" ? system : theme);
  };
  const choose = (theme) => {
    paint(theme);
    say(button, `Theme: ${theme}`);
    lasts.set("tarn-theme", theme);
  };
  const chosen = lasts.get("tarn-theme");
  let now = THEMES.includes(chosen) ? chosen : "auto";
  choose(now);
  DARK.addEventListener("change", () => paint(now));
  button.addEventListener("click", () => {
    now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    choose(now);
  });
}
