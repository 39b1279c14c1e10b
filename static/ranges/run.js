// The page of a run, live: its parts are patched and its drawing repainted, at most once a second.

import { live } from "../jobs/console/live.js";
import { fetchPage, throttled } from "../jobs/console/patch.js";
import { merge } from "../jobs/console/refresh.js";
import { Drawing } from "./drawing.js";

const EVERY = 2_000; // while it runs: leaves are too many to be told one by one
const root = document.querySelector("[data-run]");
const place = document.getElementById("drawing");
const drawing = place ? new Drawing(place) : null;
const twin = document.getElementById("twin");
const wasUndrawn = !place;
const failures = new URL(location.href).searchParams;

function address() {
  const found = new URLSearchParams();
  for (const name of ["failures", "after", "before"]) if (failures.has(name)) found.set(name, failures.get(name));
  const window = new URLSearchParams(drawing?.query ?? "");
  for (const [name, value] of window) found.set(name, value);
  return `${location.pathname}?${found}`;
}

async function parts() {
  const page = await fetchPage(address());
  const there = page?.querySelector("[data-run]");
  if (!there) return;
  if (wasUndrawn && page.getElementById("drawing")) return location.reload();
  root.dataset.status = there.dataset.status;
  for (const here of document.querySelectorAll("[data-part]")) {
    const other = page.querySelector(`[data-part="${here.dataset.part}"]`);
    if (other) merge(here, other);
  }
}

const ask = throttled(() => Promise.all([parts(), drawing?.read()]), 1_000);

function show(frame) {
  const names = [...frame.events.map((event) => event.name), ...Object.keys(frame.left_out)];
  if (names.length) ask();
}

drawing?.addEventListener("window", throttled(parts, 400));
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-zoom]");
  if (!link || !drawing || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const [begin, end] = link.dataset.zoom.split(" ").map(Number);
  drawing.show({ begin, end });
  if (!twin.contains(link)) document.getElementById("stage").focus();
});
if (twin && innerWidth >= 768) twin.open = false; // who hears the page opens it; who sees has the drawing

live?.watch([`run:${root.dataset.run}`], { show, reload: ask });
setInterval(() => {
  if (root.dataset.status === "running" && !document.hidden && !live?.paused) ask();
}, EVERY);
