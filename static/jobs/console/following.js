// A page that follows: its parts are read again when something happens that concerns it, at most each
// second.
//
//   <div data-refresh="schedules">...<div data-part="list">...</div></div>

import { live } from "./live.js";
import { fetchPage, throttled } from "./patch.js";
import { merge } from "./refresh.js";

const root = document.querySelector("[data-refresh]");
let isBehind = false; // something waits until the pointer is elsewhere

const ask = throttled(async () => {
  const page = await fetchPage();
  if (!page) return;
  isBehind = false;
  for (const here of document.querySelectorAll("[data-part]")) {
    const there = page.querySelector(`[data-part="${here.dataset.part}"]`);
    if (there && !merge(here, there)) isBehind = true;
  }
}, 1_000);

function show(frame) {
  if (frame.events.length || Object.keys(frame.left_out).length) ask();
}

if (root) {
  document.addEventListener("pointerover", () => isBehind && ask());
  live?.watch(root.dataset.refresh.split(" "), { show, reload: ask });
}
