// The list of runs, live: its cells change in place, new runs come when nobody has a hand there.

import { live } from "../jobs/console/live.js";
import { fetchPage, throttled } from "../jobs/console/patch.js";
import { merge } from "../jobs/console/refresh.js";

const EVERY = 2_000;

const ask = throttled(async () => {
  const page = await fetchPage();
  const here = document.querySelector('[data-part="rows"]');
  const there = page?.querySelector('[data-part="rows"]');
  if (here && there) merge(here, there);
  else if (there) location.reload(); // the first run of all
}, 1_000);

live?.watch(["runs"], { show: ask, reload: ask });
setInterval(() => {
  const runs = document.querySelector('[data-part="rows"] .state-running');
  if (runs && !document.hidden && !live?.paused) ask();
}, EVERY);
