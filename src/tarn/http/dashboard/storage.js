// What a browser keeps: the theme for good, the session as long as this tab. A browser may refuse
// to keep anything; then both last as long as the page.

function shelf(open) {
  const held = new Map();
  const store = () => {
    try {
      return open();
    } catch {
      return null;
    }
  };
  return {
    get: (name) => store()?.getItem(name) ?? held.get(name) ?? null,
    set(name, value) {
      held.set(name, value);
      try {
        store()?.setItem(name, value);
      } catch {
        // full, or refused: it is held here
      }
    },
    drop(name) {
      held.delete(name);
      store()?.removeItem(name);
    },
  };
}

const lasts = shelf(() => window.localStorage);
const ofTab = shelf(() => window.sessionStorage);
