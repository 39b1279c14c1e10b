// What every page of the console starts: times, keys, the live feed and its chip, two-step buttons.

import * as badges from "./badges.js";
import * as confirming from "./confirming.js";
import * as copying from "./copying.js";
import { live } from "./live.js";
import * as shortcuts from "./shortcuts.js";
import * as times from "./times.js";

const WORDS = {
  off: "Connecting",
  live: "Live",
  polling: "Polling",
  reconnecting: "Reconnecting",
  paused: "Paused",
  offline: "Offline",
};
const PATIENCE = 2_000; // milliseconds, before "Connecting" is worth a word
const ENDED = {
  4400: "The live feed stopped because of a fault on this page. Reload it.",
  4401: "Your session has ended. Log in again.",
  4403: "You may no longer see this. Reload the page.",
};

function chip() {
  const button = document.getElementById("live");
  const word = document.getElementById("live-word");
  const only = document.querySelector(".read") ? " On this page only the numbers in the menu follow." : "";
  const draw = () => {
    if (button.hidden && live.state === "off") return;
    button.hidden = false;
    button.dataset.state = live.state;
    if (word.textContent !== WORDS[live.state]) word.textContent = WORDS[live.state];
    button.title = live.paused ? "Updates are paused. Click to go on (p)." : `Click to pause updates (p).${only}`;
    button.setAttribute("aria-pressed", String(live.paused));
  };
  live.addEventListener("state", draw);
  live.addEventListener("ended", (event) => {
    const line = document.createElement("li");
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = ENDED[event.detail] ?? ENDED[4400];
    line.className = "warning";
    line.append(link);
    document.querySelector(".messagelist")?.append(line);
  });
  button.addEventListener("click", toggle);
  draw();
  setTimeout(() => {
    button.hidden = false;
    draw();
  }, PATIENCE);
}

function toggle() {
  if (live.paused) live.resume();
  else live.pause();
}

// On a narrow screen tabs lie in one line: the one in hand is moved into sight.
for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
  const tabs = tab.closest(".tabs");
  const { left, width } = tab.getBoundingClientRect();
  tabs.scrollLeft += left - tabs.getBoundingClientRect().left - (tabs.clientWidth - width) / 2;
}
// What a page wants to have the focus, without jumping down to it.
document.querySelector("[data-focus]")?.focus({ preventScroll: true });
times.start();
confirming.start();
copying.start();
shortcuts.start({
  p: () => (live ? toggle() : false),
  t: () => document.getElementById("theme")?.click(),
  f: () => focus("[data-filters] :is(input, select):not([type=hidden])"),
  j: () => step(1),
  k: () => step(-1),
  x: () => current()?.querySelector("input[type=checkbox]")?.click(),
  Enter: () => open(),
});

function focus(selector) {
  const found = document.querySelector(selector);
  found?.focus();
  return Boolean(found);
}

// Rows by keys: the link of the current row has the focus, so that it is seen and heard.
function current() {
  return document.activeElement?.closest("tr[data-row]");
}

function step(by) {
  const rows = [...document.querySelectorAll("tr[data-row]")];
  if (!rows.length) return false;
  const at = rows.indexOf(current());
  const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))];
  next.querySelector("a[data-open], a")?.focus();
}

function open() {
  if (document.activeElement?.matches("a, button, summary, input")) return false;
  const link = current()?.querySelector("a[data-open], a");
  link?.click();
  return Boolean(link);
}

// Menus close by a click elsewhere, or by Escape; also those that came with a part read again.
const MENUS = "details.user[open], details.menu[open]";

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(MENUS)) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll(MENUS)) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
});

if (live) {
  if (document.body.dataset.liveBegins === "paused") live.pause();
  chip();
  badges.start();
  // Modules of the page itself have added their topics by then.
  addEventListener("load", () => live.start());
}
