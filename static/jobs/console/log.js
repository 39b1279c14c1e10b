// The log of the overview: the newest 200 lines, newest first. While somebody reads it (the pointer or
// the focus is in it, or it is scrolled) new lines wait, and say how many they are; and always, if the
// reader wants it to stand still.

import { live } from "./live.js";
import { clock } from "./times.js";

const LINES = 200;
const isStill = document.body.dataset.log === "still";
const time = clock({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const waiting = [];
let list = null;
let panel = null;
let isWatching = false;
let left = 0;
let levels = {};
let told = [];

/** Again when the panel is there anew, such as after it could not be read. */
export function start() {
  list = document.querySelector("[data-log]");
  if (!list) return;
  panel = list.closest("[data-panel]");
  waiting.length = left = 0;
  levels = JSON.parse(document.getElementById("log-levels").textContent);
  told = JSON.parse(document.getElementById("log-told").textContent);
  document.querySelector(".log-tools").hidden = false;
  const choice = document.getElementById("log-level");
  choice.addEventListener("change", () => (list.dataset.level = choice.value));
  const aloud = document.getElementById("log-aloud");
  aloud.addEventListener("change", () => list.parentElement.setAttribute("aria-live", aloud.checked ? "polite" : "off"));
  document.querySelector("[data-log-thaw]").addEventListener("click", () => {
    list.scrollTop = 0;
    thaw();
  });
  panel.addEventListener("pointerleave", () => isFrozen() || thaw());
  list.addEventListener("focusout", () => isFrozen() || thaw());
  list.addEventListener("scroll", () => isFrozen() || thaw());
  pill();
  if (!isWatching) live?.watch(["overview"], { show });
  isWatching = true;
}

function show(frame) {
  for (const event of frame.events) waiting.push(line(event));
  for (const count of Object.values(frame.left_out)) left += count;
  if (waiting.length > LINES) waiting.splice(0, waiting.length - LINES);
  if (isFrozen()) pill();
  else thaw();
}

function isFrozen() {
  return isStill || panel.matches(":hover") || list.contains(document.activeElement) || list.scrollTop > 4;
}

function thaw() {
  if (left) waiting.push(note(`and ${left.toLocaleString("en")} more, not told singly`));
  left = 0;
  if (waiting.length) {
    list.prepend(...waiting.splice(0).reverse());
    while (list.childElementCount > LINES) list.lastElementChild.remove();
    document.querySelector(".log-empty").hidden = true;
  }
  pill();
}

function pill() {
  const button = document.querySelector("[data-log-thaw]");
  const count = waiting.length + left;
  button.hidden = !count;
  if (count) button.textContent = `${count.toLocaleString("en")} new`;
}

function line(event) {
  const made = document.getElementById("log-line").content.cloneNode(true).firstElementChild;
  const [when, name, rest] = made.children;
  made.className = `is-${levels[event.name] ?? "info"}`;
  when.dateTime = new Date(event.at * 1000).toISOString();
  when.textContent = time(event.at * 1000);
  name.textContent = event.name;
  const subject = event.type || event.queue;
  if (event.job_id) {
    const link = document.createElement("a");
    link.href = `${list.dataset.job}${encodeURIComponent(event.job_id)}/`;
    link.textContent = `${subject} ${event.job_id.slice(-8)}`;
    rest.append(link);
  } else {
    rest.append(subject);
  }
  const text = told.map((fact) => event.facts[fact]).filter(Boolean).join(" · ").slice(0, 200);
  if (text) {
    const words = document.createElement("span");
    words.className = "quiet";
    words.textContent = ` ${text}`;
    rest.append(words);
  }
  return made;
}

function note(text) {
  const made = document.getElementById("log-line").content.cloneNode(true).firstElementChild;
  made.className = "is-info";
  made.children[1].textContent = "…";
  made.children[2].textContent = text;
  return made;
}
