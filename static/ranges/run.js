// The page of a run, live: its parts are patched and its drawing repainted, at most once a second.

import { live } from "../jobs/console/live.js";
import { fetchPage, throttled } from "../jobs/console/patch.js";
import { merge } from "../jobs/console/refresh.js";
import { Drawing } from "./drawing.js";
import { Log } from "./log.js";
import { Rates } from "./rates.js";

const EVERY = 2_000; // while it runs: leaves are too many to be told one by one
const SAMPLED = 10_000; // a run notes how far it is about so often
const HANDS = "a, button, summary, input, label, select";
const root = document.querySelector("[data-run]");
const place = document.getElementById("drawing");
const drawing = place ? new Drawing(place) : null;
const charts = document.querySelector("[data-rates]");
const rates = charts ? new Rates(charts) : null;
const tools = document.getElementById("log-tools");
const log = tools ? new Log(document.querySelector('[data-part="log"]'), tools) : null;
const twin = document.getElementById("twin");
const wasUndrawn = !place;
const given = new URL(location.href).searchParams;
let sampledAt = performance.now();

// The same tab and page of the worklist, also if another one would come first by now.
function address() {
  const found = new URLSearchParams({ work: root.dataset.work });
  for (const name of ["after", "before"]) if (given.has(name)) found.set(name, given.get(name));
  const window = new URLSearchParams(drawing?.query ?? "");
  for (const [name, value] of window) found.set(name, value);
  return `${location.pathname}?${found}`;
}

async function parts() {
  const page = await fetchPage(address());
  const there = page?.querySelector("[data-run]");
  if (!there) return;
  if (wasUndrawn && page.getElementById("drawing")) return location.reload();
  const hasStopped = root.dataset.status === "running" && there.dataset.status !== "running";
  root.dataset.status = there.dataset.status;
  for (const here of document.querySelectorAll("[data-part]")) {
    const other = page.querySelector(`[data-part="${here.dataset.part}"]`);
    if (other && here.dataset.part === "log") log?.take(other);
    else if (other) merge(here, other);
  }
  if (hasStopped) rates?.read();
}

const ask = throttled(() => Promise.all([parts(), drawing?.read()]), 1_000);

function show(frame) {
  const names = [...frame.events.map((event) => event.name), ...Object.keys(frame.left_out)];
  if (names.length) ask();
}

// What leads to a part of the drawing: a link, or a row anywhere but on what does something else.
function zoomOf(target) {
  const link = target.closest?.("a[data-zoom]");
  if (link) return link;
  const row = target.closest?.("tr[data-zoom]");
  return row && !target.closest(HANDS) && !getSelection()?.toString() ? row : null;
}

drawing?.addEventListener("window", throttled(parts, 400));
document.addEventListener("click", (event) => {
  const found = zoomOf(event.target);
  if (!found || !drawing || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const [begin, end] = found.dataset.zoom.split(" ").map(Number);
  drawing.show({ begin, end });
  if (!twin.contains(found)) {
    place.scrollIntoView({ block: "nearest" });
    document.getElementById("stage").focus({ preventScroll: true });
  }
});
if (twin && innerWidth >= 768) twin.open = false; // who hears the page opens it; who sees has the drawing

live?.watch([`run:${root.dataset.run}`], { show, reload: ask });
setInterval(() => {
  if (root.dataset.status !== "running" || document.hidden || live?.paused) return;
  ask();
  if (performance.now() - sampledAt < SAMPLED) return;
  sampledAt = performance.now();
  rates?.read();
}, EVERY);
