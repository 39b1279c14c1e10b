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
  const about = stats.estimated.includes("dlq") ? "≈" : "";
  write("dead", stats.dlq, `${about}${number(stats.dlq)}`, `${about}${number(stats.dlq)} dead letters`);
  const paused = stats.queues.filter((queue) => queue.paused).length;
  write("paused_queues", paused, `${paused} paused`, `${paused} queues are paused`);
  const stale = stats.workers.filter((worker) => stats.at - worker.beat_at > Number(deadAfter)).length;
  write("stale_workers", stale, `${stale} stale`, `${stale} workers show no sign of life`);
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

function number(value) {
  return value.toLocaleString("en");
}
