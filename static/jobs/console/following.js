// A page that follows: its parts are read again when something happens that concerns it, at most each
// second; and every so many seconds where nothing tells that something has happened.
//
//   <div data-refresh="schedules" data-every="5">...<div data-part="list">...</div></div>
//
// In a part that is read like a log, new rows wait behind "12 new: show":
//
//   <button class="pill" data-show-new hidden></button><div data-part="entries" data-waits>...</div>

import { live } from "./live.js";
import { fetchPage, throttled } from "./patch.js";
import { keep, merge, take } from "./refresh.js";

const root = document.querySelector("[data-refresh]");
const pill = document.querySelector("[data-show-new]");
const every = Number(root?.dataset.every ?? 0) * 1_000;
let isBehind = false; // something waits until the pointer is elsewhere

const ask = throttled(async () => {
  const page = await fetchPage();
  if (!page) return;
  isBehind = false;
  for (const here of document.querySelectorAll("[data-part]")) {
    const there = page.querySelector(`[data-part="${here.dataset.part}"]`);
    if (!there) continue;
    if ("waits" in here.dataset && here.querySelector("[data-row]")) draw(keep(here, there));
    else if (!merge(here, there)) isBehind = true;
  }
}, 1_000);

function draw(fresh) {
  pill.hidden = !fresh;
  const text = `${fresh.toLocaleString("en")} new: show`;
  if (fresh && pill.textContent !== text) pill.textContent = text;
}

function show(frame) {
  if (frame.events.length || Object.keys(frame.left_out).length) ask();
}

if (root) {
  document.addEventListener("pointerover", () => isBehind && ask());
  live?.watch(root.dataset.refresh.split(" ").filter(Boolean), { show, reload: ask });
}
if (every) {
  setInterval(() => document.hidden || ["paused", "offline"].includes(live?.state) || ask(), every);
}
pill?.addEventListener("click", async () => {
  const page = await fetchPage();
  if (!page) return location.reload();
  for (const here of document.querySelectorAll("[data-waits]")) {
    take(here, page.querySelector(`[data-part="${here.dataset.part}"]`));
  }
  draw(0);
});
