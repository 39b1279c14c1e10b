// The badges of the navigation, live. Those that follow from the stats are written at once; the
// others are asked for when something has happened that may change them.

import { live } from "./live.js";
import { throttled } from "./patch.js";

const { badges: url, deadAfter } = document.body.dataset;

export function start() {
  live.watch(["queues", "workers", "runs", "bulk"], { show, reload: ask });
}

function show(frame) {
  if (frame.stats?.states) fromStats(frame.stats);
  const names = [...frame.events.map((event) => event.name), ...Object.keys(frame.left_out)];
  if (names.some((name) => /^(range\.(?!.*_updated)|bulk\.)/.test(name))) ask();
}

function fromStats(stats) {
  const isAbout = stats.estimated.includes("dlq");
  const letters = `${number(stats.dlq)} dead letter${stats.dlq === 1 ? "" : "s"}`;
  write("dead", stats.dlq, `${isAbout ? "≈" : ""}${brief(stats.dlq)}`, `${isAbout ? "about " : ""}${letters}`);
  const paused = stats.queues.filter((queue) => queue.paused).length;
  write("paused_queues", paused, `${paused} paused`, `${paused} ${paused === 1 ? "queue is" : "queues are"} paused`);
  const stale = stats.workers.filter((worker) => stats.at - worker.beat_at > Number(deadAfter)).length;
  write("stale_workers", stale, `${stale} stale`, `${stale} ${stale === 1 ? "worker shows" : "workers show"} no sign of life`);
}

const ask = throttled(async () => {
  if (!url) return;
  try {
    const answer = await fetch(url);
    if (!answer.ok) return;
    const found = await answer.json();
    for (const badge of document.querySelectorAll("[data-badge]")) {
      const { text = "", title = "", tone = "" } = found[badge.dataset.badge] ?? {};
      write(badge.dataset.badge, text, text, title, tone);
    }
  } catch {
    // The next occasion asks again.
  }
}, 2000);

function write(name, isShown, text, title, tone = null) {
  for (const badge of document.querySelectorAll(`[data-badge="${name}"]`)) {
    badge.hidden = !isShown;
    if (badge.textContent !== text) badge.textContent = text;
    badge.title = title;
    if (tone !== null) badge.className = tone ? `badge badge-${tone}` : "badge";
    else if (badge.dataset.tone) badge.className = `badge badge-${badge.dataset.tone}`;
  }
}

// As the server says it: 99,999, 101k, 2.3M.
function brief(value) {
  if (value < 100_000) return number(value);
  if (value < 1_000_000) return `${Math.floor(value / 1_000)}k`;
  return `${(Math.floor(value / 100_000) / 10).toFixed(1)}M`;
}

function number(value) {
  return value.toLocaleString("en");
}
