// Lists and pages of queues and workers, live: their parts are read again while they are looked at.

import * as charts from "./charts.js";
import { live } from "./live.js";
import { fetchPage, throttled } from "./patch.js";
import { merge } from "./refresh.js";

const EVERY = 2_000;
const root = document.querySelector("[data-refresh]");
let askedAt = performance.now();
let isBehind = false; // something waits until the pointer is elsewhere

const ask = throttled(async () => {
  askedAt = performance.now();
  const page = await fetchPage();
  if (!page) return;
  isBehind = false;
  for (const here of document.querySelectorAll("[data-part]")) {
    const there = page.querySelector(`[data-part="${here.dataset.part}"]`);
    if (there && !merge(here, there)) isBehind = true;
  }
  charts.revive(page);
}, 1_000);

function show(frame) {
  const names = [...frame.events.map((event) => event.name), ...Object.keys(frame.left_out)];
  if (names.some((name) => /^(queue|worker)\./.test(name))) {
    ask();
    setTimeout(ask, 1_100); // what pages share may be a second old
  } else if (performance.now() - askedAt > EVERY) {
    ask();
  }
}

document.addEventListener("pointerover", () => isBehind && ask());
charts.start();
live?.watch(root.dataset.refresh.split(" "), { show, reload: ask });
