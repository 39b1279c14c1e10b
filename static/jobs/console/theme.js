// The theme, before the first paint: an ordinary script in the head, for a module would come late.
// Remembered where Django's own admin remembers it, so both agree.
"use strict";
(() => {
  const THEMES = ["auto", "light", "dark"];
  const root = document.documentElement;

  function current() {
    try {
      const kept = localStorage.getItem("theme");
      return THEMES.includes(kept) ? kept : "auto";
    } catch {
      return "auto"; // storage is refused
    }
  }

  function show(theme) {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) {
      button.hidden = false;
      const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      button.lastElementChild.textContent = `Theme: ${theme}. Change to ${next}.`;
      button.title = `Theme: ${theme}`;
    }
    document.dispatchEvent(new CustomEvent("coppice:theme", { detail: theme }));
  }

  function change() {
    const theme = THEMES[(THEMES.indexOf(current()) + 1) % THEMES.length];
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // It lasts as long as the page.
    }
    show(theme);
  }

  root.classList.add("js");
  show(current());
  document.addEventListener("DOMContentLoaded", () => {
    show(current());
    document.getElementById("theme")?.addEventListener("click", change);
  });
  window.addEventListener("storage", (event) => event.key === "theme" && show(current()));
})();
