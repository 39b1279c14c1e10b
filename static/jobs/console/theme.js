// The theme, before the first paint: an ordinary script in the head, for a module would come late.
//
// The server writes the theme that the reader has chosen into the page. Django's own admin remembers
// its theme in this browser, and both shall agree: whichever was changed last counts. SEEN is the
// server's theme as this browser saw it last, by which it is known which of the two has changed
// since; UNSENT is a change that the server has not confirmed, and SENT when it confirmed the last one:
// a page that was asked for before that may not know of it yet.
"use strict";
(() => {
  const THEMES = ["auto", "light", "dark"];
  const SEEN = "coppice:theme";
  const UNSENT = "coppice:theme-unsent";
  const SENT = "coppice:theme-sent";
  const root = document.documentElement;
  const { themeKept } = root.dataset; // undefined: nobody has signed in; empty: nothing chosen
  let sending = Promise.resolve();

  function read(name) {
    try {
      const found = localStorage.getItem(name);
      return THEMES.includes(found) ? found : null;
    } catch {
      return null; // storage is refused
    }
  }

  function write(name, text) {
    try {
      if (text === null) localStorage.removeItem(name);
      else localStorage.setItem(name, text);
    } catch {
      // It lasts as long as the page.
    }
  }

  function sentAt() {
    try {
      return Number(localStorage.getItem(SENT));
    } catch {
      return 0;
    }
  }

  /** The theme to show, and whether the server does not know of it yet. */
  function agreed() {
    const here = read("theme");
    const seen = read(SEEN);
    if (themeKept === undefined) {
      write(UNSENT, null); // it was of somebody who has signed out
      return [here ?? "auto", false];
    }
    const unsent = read(UNSENT);
    if (unsent !== null) return [unsent, true];
    if (seen !== null && sentAt() > performance.timeOrigin) return [seen, false];
    if (themeKept !== (seen ?? "")) {
      write("theme", themeKept || "auto");
      write(SEEN, themeKept || null);
      return [themeKept || "auto", false];
    }
    if (!themeKept) return [here ?? "auto", false];
    return [here ?? themeKept, here !== null && here !== themeKept];
  }

  function show(theme) {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) {
      const next = after(theme);
      button.hidden = false;
      button.value = next;
      button.lastElementChild.textContent = `Theme: ${theme}. Change to ${next}.`;
      button.title = `Theme: ${theme}`;
    }
    document.dispatchEvent(new CustomEvent("coppice:theme", { detail: theme }));
  }

  function after(theme) {
    return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  }

  function change(event) {
    event.preventDefault();
    const theme = after(root.dataset.theme);
    write("theme", theme);
    write(UNSENT, theme);
    show(theme);
    keep(theme);
  }

  // With the form around the button, one after the other. If it fails, the next page tries again.
  function keep(theme) {
    sending = sending.then(() => send(theme));
  }

  async function send(theme) {
    const form = document.getElementById("theme")?.form;
    if (!form) return;
    const body = new FormData(form);
    body.set("theme", theme);
    try {
      const answer = await fetch(form.action, { method: "POST", body, headers: { "X-Coppice-Part": "1" }, redirect: "manual", keepalive: true });
      if (answer.status !== 204) return;
      write(SEEN, theme);
      write(SENT, String(Date.now()));
      if (read(UNSENT) === theme) write(UNSENT, null);
    } catch {
      // The network is away.
    }
  }

  root.classList.add("js");
  const [theme, isNews] = agreed();
  show(theme);
  document.addEventListener("DOMContentLoaded", () => {
    show(root.dataset.theme);
    document.getElementById("theme")?.addEventListener("click", change);
    document.querySelector("[data-display]")?.addEventListener("submit", () => write(UNSENT, null));
    if (isNews) keep(theme);
  });
  window.addEventListener("storage", (event) => event.key === "theme" && show(read("theme") ?? "auto"));
})();
