// Dead letters, live: what stands above the list is read again when a job dies, or is retried or
// purged. The list itself is the ledger's (ledger.js).

import { live } from "./live.js";
import { fetchPage, throttled } from "./patch.js";
import { merge } from "./refresh.js";

const EVERY = 10_000; // milliseconds, while nothing tells that something has changed
const WAKES = /^job\.(dlq_entry|retried|purged)$|^(bulk|jobs)\./;

let askedAt = performance.now();

const ask = throttled(async () => {
  askedAt = performance.now();
  const page = await fetchPage();
  if (!page) return;
  const wasEmpty = Boolean(document.querySelector(".all-well"));
  if (wasEmpty !== Boolean(page.querySelector(".all-well"))) {
    if (!document.querySelector("form[data-ledger] :checked, :is(input, textarea):focus")) location.reload();
    return;
  }
  for (const here of document.querySelectorAll("[data-letters]")) {
    const there = page.querySelector(`[data-letters="${here.dataset.letters}"]`);
    if (there) merge(here, there);
  }
}, 1_000);

function show(frame) {
  const names = [...frame.events.map((event) => event.name), ...Object.keys(frame.left_out)];
  if (names.some((name) => WAKES.test(name))) {
    ask();
    setTimeout(ask, 2_200); // what pages share may be two seconds old
  } else if (performance.now() - askedAt > EVERY) {
    ask();
  }
}

live?.watch(["overview"], { show, reload: ask });
