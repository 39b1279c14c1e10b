// Bulk operations, live: the parts of the page are read again as a batch is done, at most each second.

import { live } from "./live.js";
import { fetchPage, throttled } from "./patch.js";
import { merge } from "./refresh.js";

const topic = document.querySelector("[data-bulk]").dataset.bulk;

const ask = throttled(async () => {
  const page = await fetchPage();
  if (!page) return;
  for (const here of document.querySelectorAll("[data-part]")) {
    const there = page.querySelector(`[data-part="${here.dataset.part}"]`);
    if (there) merge(here, there);
  }
}, 1_000);

function show(frame) {
  const names = [...frame.events.map((event) => event.name), ...Object.keys(frame.left_out)];
  if (names.includes("bulk.updated")) ask();
}

live?.watch([topic], { show, reload: ask });
