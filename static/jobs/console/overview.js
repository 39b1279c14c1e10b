// The overview, live: cards from each frame, the other parts from the server as often as is useful.

import * as charts from "./charts.js";
import { live } from "./live.js";
import * as log from "./log.js";
import { fetchPage, throttled } from "./patch.js";
import { isWatched, merge } from "./refresh.js";
import { duration, now, stamp } from "./times.js";

const PARTS = ["start", "health", "cards", "active", "letters", "queues", "workers", "runs"];
// These keep themselves; they are read again only when they could not be read before.
const STARTS = { charts: charts.start, log: log.start };
const ALONE = ":is([data-panel=charts], [data-panel=log]):has([data-failed])";
const EVERY = 3_000; // milliseconds, while nothing tells that something has changed
const WAKES = /^(queue|worker|range|alert|type|schedule|jobs)\.|^job\.(dlq_entry|retried|purged)$/;
const OLD = 5_000;

const root = document.querySelector("[data-overview]");
const { deadAfter } = document.body.dataset;
let askedAt = performance.now();
let statsAt = now();
let isBehind = false; // something waits until the pointer is elsewhere

const ask = throttled(async () => {
  askedAt = performance.now();
  const asked = [...PARTS, ...[...root.querySelectorAll(ALONE)].map((each) => each.dataset.panel)];
  const url = new URL(root.dataset.overview, location.href);
  url.searchParams.set("parts", asked.join(","));
  url.searchParams.set("span", new URLSearchParams(location.search).get("span") ?? "");
  const page = await fetchPage(url);
  if (!page) return;
  const panels = [...page.querySelectorAll("[data-panel]")];
  const named = new Set(panels.map((each) => each.dataset.panel));
  const gone = [...root.querySelectorAll("[data-panel]")].filter(
    ({ dataset: { panel } }) => asked.includes(panel) && !named.has(panel),
  );
  const done = [...panels.map((each, place) => put(each, panels.slice(0, place))), ...gone.map(leave)];
  isBehind = !done.every(Boolean);
}, 1_000);

// Each is false if it has to wait until the pointer is elsewhere.

function put(there, before) {
  const name = there.dataset.panel;
  const here = root.querySelector(`[data-panel="${name}"]`);
  if (!here) return insert(there, before);
  const wasAlone = here.matches(ALONE);
  if (!merge(here, there)) return false;
  if (wasAlone && !here.matches(ALONE)) STARTS[name]();
  return true;
}

function insert(there, before) {
  const column = root.querySelector(`[data-column="${there.closest("[data-column]").dataset.column}"]`);
  if (isWatched(column)) return false;
  const panels = before.map((each) => column.querySelector(`:scope > [data-panel="${each.dataset.panel}"]`));
  const above = panels.findLast(Boolean);
  const made = document.importNode(there, true);
  if (above) above.after(made);
  else column.prepend(made);
  return true;
}

function leave(here) {
  if (isWatched(here)) return false;
  here.remove();
  return true;
}

function show(frame) {
  if (frame.stats?.states) cards(frame.stats);
  const names = [...frame.events.map((event) => event.name), ...Object.keys(frame.left_out)];
  if (names.some((name) => WAKES.test(name))) {
    ask();
    setTimeout(ask, 1_100); // what pages share may be a second old
  } else if (performance.now() - askedAt > EVERY) {
    ask();
  }
}

function cards(stats) {
  statsAt = stats.at * 1000;
  for (const name of ["ready", "retrying", "blocked"]) {
    write(name, number(stats.states[name]) + (stats.at_least.includes(name) ? "+" : ""));
  }
  write("running", number(stats.processing));
  write("dead", (stats.estimated.includes("dlq") ? "≈ " : "") + number(stats.dlq));
  const waits = stats.queues.filter((queue) => !queue.paused).map((queue) => queue.oldest_wait_seconds ?? 0);
  const oldest = Math.max(0, ...waits);
  write("oldest", oldest ? `oldest ${duration(oldest)}` : "nothing waits");
  for (const worker of stats.workers) beat(worker, stats.at);
}

// When a worker was heard of last; the page counts on by itself.
function beat({ id, beat_at: at }, current) {
  const time = root.querySelector(`[data-worker="${CSS.escape(id)}"] .beat time`);
  if (!time) return;
  time.dateTime = new Date(at * 1000).toISOString();
  time.title = time.title.replace(/^\S+ \S+/, stamp(at * 1000)); // its zone stands behind
  if ((current - at > Number(deadAfter)) !== Boolean(time.closest(".is-stale"))) ask();
}

function write(name, text) {
  for (const place of root.querySelectorAll(`[data-stat="${name}"]`)) {
    if (place.textContent !== text) place.textContent = text;
    if (name === "dead") place.toggleAttribute("data-zero", text === "0");
  }
}

function number(value) {
  return (value ?? 0).toLocaleString("en");
}

// Jobs that go over their usual time while one looks, and numbers that nobody renews.
setInterval(() => {
  if (document.hidden) return;
  for (const cell of root.querySelectorAll("[data-limit]")) {
    const began = Date.parse(cell.querySelector("time").dateTime);
    cell.querySelector(".over").hidden = now() - began < Number(cell.dataset.limit) * 1000;
  }
  const isOld = Boolean(live) && ["live", "polling"].includes(live.state) && now() - statsAt > OLD * 2;
  root.querySelector(".stat-cards")?.classList.toggle("is-old", isOld);
}, 1_000);

document.addEventListener("pointerover", () => isBehind && ask());
charts.start();
log.start();
live?.watch(["overview"], { show, reload: ask });
