// The overview, live: cards from each frame, the other parts from the server as often as is useful.

import * as charts from "./charts.js";
import { live } from "./live.js";
import * as log from "./log.js";
import { fetchPage, throttled } from "./patch.js";
import { merge } from "./refresh.js";
import { duration, now, stamp } from "./times.js";

const PARTS = ["start", "health", "cards", "active", "letters", "queues", "workers", "runs"];
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
  const url = new URL(root.dataset.overview, location.href);
  url.searchParams.set("parts", PARTS.join(","));
  const page = await fetchPage(url);
  if (!page) return;
  const done = [...page.querySelectorAll("[data-panel]")].map(put);
  isBehind = !done.every(Boolean);
}, 1_000);

function put(there) {
  const here = root.querySelector(`[data-panel="${there.dataset.panel}"]`);
  if (here) return merge(here, there);
  const column = there.closest("[data-column]").dataset.column;
  root.querySelector(`[data-column="${column}"]`).append(document.importNode(there, true));
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
