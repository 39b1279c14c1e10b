// The page of a job, live: whatever happens to it, its parts are read again, at most once a second.

import { live } from "./live.js";
import { fetchPage, replacePart, throttled } from "./patch.js";

const PARTS = ["buttons", "head", "timeline", "attempts", "log", "contents", "neighbours", "history", "drawing"];
const { job } = document.querySelector("[data-job]").dataset;

const reload = throttled(async () => {
  const page = await fetchPage();
  if (!page) return;
  if (!page.querySelector("[data-job]")) {
    location.reload(); // it is gone: the server says by whom
    return;
  }
  for (const part of PARTS) replacePart(part, page);
  later();
}, 1000);

// A job that was asked to stop may be taken from its worker a little later.
function later() {
  const wait = document.querySelector("[data-again-in]")?.dataset.againIn;
  if (wait) setTimeout(reload, Number(wait) * 1000 + 200);
}

function show(frame) {
  let changed = Object.keys(frame.left_out).some((name) => name.startsWith("job."));
  for (const event of frame.events) {
    if (event.job_id !== job) continue;
    if (event.name === "job.progress" && progress(event.facts)) continue;
    changed = true;
  }
  if (changed) reload();
}

// Progress is drawn from the event itself: it may come many times a second.
function progress({ done, total }) {
  const bar = document.getElementById("progress");
  const text = document.getElementById("progress-text");
  const hasTotal = typeof total === "number";
  if (!text || typeof done !== "number" || hasTotal !== Boolean(bar)) return false;
  text.textContent = done.toLocaleString("en");
  if (!hasTotal) return true;
  bar.max = total;
  bar.value = done;
  text.append(` of ${total.toLocaleString("en")}`);
  return true;
}

later();
live?.watch([`job:${job}`], { show, reload });
