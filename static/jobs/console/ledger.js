// The list of jobs: selection, live rows, "12 new: show". Rows that are here change in place; new
// ones wait until somebody asks for them, so that nothing moves under the pointer.

import * as copying from "./copying.js";
import { live } from "./live.js";
import { clone, fetchPage, patchRows, replacePart, throttled, tint } from "./patch.js";

const form = document.querySelector("form[data-ledger]");
const isFirstPage = "first" in form.dataset;
const pill = document.getElementById("show-new");
const tab = form.dataset.tab;

// What brings a job into a tab, by the name of the event.
const BRINGS = {
  active: ["job.created", "job.retried"],
  ready: ["job.created", "job.retried", "job.released"],
  scheduled: ["job.created"],
  retrying: ["job.retry_scheduled", "job.snoozed"],
  running: ["job.started"],
  blocked: ["job.waiting"],
  held: ["job.held"],
  completed: ["job.completed"],
  dead: ["job.dlq_entry"],
  cancelled: ["job.cancelled"],
  all: ["job.created"],
}[tab];

// What an event says about the state at once; the server is asked for the rest.
const STATES = {
  "job.started": "running",
  "job.completed": "completed",
  "job.dlq_entry": "dead",
  "job.cancelled": "cancelled",
  "job.retry_scheduled": "retrying",
  "job.snoozed": "retrying",
  "job.held": "held",
  "job.retried": "ready",
};

// The tabs' numbers, as bars.py makes them from the same stats.
const COUNTS = {
  active: (stats) => stats.pending + stats.processing,
  running: (stats) => stats.processing,
  completed: (stats) => stats.completed,
  dead: (stats) => stats.failed,
  cancelled: (stats) => stats.cancelled,
  all: (stats) => stats.total,
};
const OF = {
  active: ["pending", "processing"],
  running: ["processing"],
  completed: ["completed"],
  dead: ["failed"],
  cancelled: ["cancelled"],
  all: ["total"],
};

const doubtful = new Set();
const fresh = new Set();
let uncounted = 0;

const table = () => form.querySelector("table");
const rowOf = (id) => form.querySelector(`tr[data-row="${CSS.escape(id)}"]`);

function count(stats) {
  for (const badge of document.querySelectorAll("[data-count]")) {
    const name = badge.dataset.count;
    const isState = name in stats.states;
    const number = isState ? stats.states[name] : COUNTS[name]?.(stats);
    if (number === undefined) continue;
    const isLeast = isState && stats.at_least.includes(name);
    const isAbout = !isState && OF[name].some((each) => stats.estimated.includes(each));
    const text = `${isAbout ? "≈" : ""}${number.toLocaleString("en")}${isLeast ? "+" : ""}`;
    if (badge.textContent !== text) badge.textContent = text;
    if (name === "dead") badge.classList.toggle("badge-bad", number > 0);
  }
}

function show(frame) {
  if (frame.stats?.states) count(frame.stats);
  for (const event of frame.events) {
    if (!event.job_id) continue;
    const row = rowOf(event.job_id);
    if (row) {
      doubtful.add(event.job_id);
      if (event.name === "job.purged") forget(row);
      else if (STATES[event.name]) setState(row, STATES[event.name]);
    } else if (BRINGS.includes(event.name)) {
      fresh.add(event.job_id);
    }
  }
  const left = frame.left_out;
  uncounted += BRINGS.reduce((sum, name) => sum + (left[name] ?? 0), 0);
  if (Object.keys(left).some((name) => name.startsWith("job."))) {
    for (const row of form.querySelectorAll("tr[data-row]")) doubtful.add(row.dataset.row);
  }
  if (doubtful.size) ask();
  drawPill();
}

function setState(row, state) {
  if (row.dataset.state === state) return;
  row.dataset.state = state;
  row.querySelector('[data-cell="state"]')?.replaceChildren(clone(`state-${state}`));
  tint(row);
}

function forget(row) {
  row.classList.add("is-gone");
  row.querySelector('[data-cell="state"]')?.replaceChildren(clone("state-purged"));
  const box = row.querySelector("input[type=checkbox]");
  if (box) {
    box.checked = false;
    box.disabled = true;
  }
  select();
}

// The rows that something happened to, as the server has them now: at most each second.
const ask = throttled(async () => {
  const ids = [...doubtful];
  doubtful.clear();
  if (!ids.length || !table()) return;
  const url = new URL(location.href);
  url.searchParams.set("ids", ids.join(","));
  const page = await fetchPage(url);
  if (!page) return;
  const found = new Set([...page.querySelectorAll("tr[data-row]")].map((row) => row.dataset.row));
  patchRows(table(), page, { gone: false });
  for (const id of ids) if (!found.has(id) && rowOf(id)) forget(rowOf(id));
  copying.show();
}, 1000);

// After a gap: every row may be out of date, and so may the counts.
const reload = throttled(async () => {
  const page = await fetchPage();
  if (!page) return;
  replacePart("tabs", page);
  if (!table()) {
    if (page.querySelector("tr[data-row]")) location.reload();
    return;
  }
  const newer = patchRows(table(), page, { gone: false });
  for (const row of form.querySelectorAll("tr[data-row]")) doubtful.add(row.dataset.row);
  for (const row of page.querySelectorAll("tr[data-row]")) doubtful.delete(row.dataset.row);
  if (isFirstPage) for (const row of newer) fresh.add(row.dataset.row);
  if (doubtful.size) ask();
  drawPill();
  copying.show();
}, 2000);

function drawPill() {
  const known = fresh.size + uncounted;
  pill.hidden = !known;
  const text = `${known.toLocaleString("en")} new: ${isFirstPage ? "show" : "go to the newest"}`;
  if (known && pill.textContent !== text) pill.textContent = text;
}

pill.addEventListener("click", async () => {
  if (!isFirstPage || !table()) {
    const url = new URL(location.href);
    url.searchParams.delete("after");
    url.searchParams.delete("before");
    location.assign(url);
    return;
  }
  const page = await fetchPage();
  const body = page?.querySelector("table.jobs tbody");
  if (!body) return location.reload();
  const ticked = new Set(boxes().filter((box) => box.checked).map((box) => box.value));
  const kept = new Set([...form.querySelectorAll("tr[data-row]")].map((row) => row.dataset.row));
  table().tBodies[0].replaceWith(document.importNode(body, true));
  for (const box of boxes()) box.checked = ticked.has(box.value);
  for (const row of form.querySelectorAll("tr[data-row]")) if (!kept.has(row.dataset.row)) tint(row);
  fresh.clear();
  uncounted = 0;
  replacePart("tabs", page);
  drawPill();
  select();
  copying.show();
});

// Selection

const all = document.getElementById("tick-all");
let last = null;

function boxes() {
  return [...form.querySelectorAll('input[name="_selected_action"]')];
}

function select() {
  const ticked = boxes().filter((box) => box.checked).length;
  const line = document.getElementById("selected");
  if (line) line.textContent = ticked ? `${ticked} selected` : "Tick rows to act on them";
  for (const button of form.querySelectorAll("#selection button[name=action]")) {
    button.disabled = !ticked;
    const asks = button.dataset.confirmMany;
    const alone = ticked === 1 && ["retry", "run_now"].includes(button.value);
    if (asks && ticked && !alone) button.dataset.confirm = `${asks} ${ticked}?`;
    else delete button.dataset.confirm;
  }
  if (all) {
    all.checked = ticked > 0 && ticked === boxes().length;
    all.indeterminate = ticked > 0 && !all.checked;
  }
}

form.addEventListener("click", (event) => {
  const box = event.target;
  if (!box.matches?.('input[name="_selected_action"]')) return;
  const every = boxes();
  if (event.shiftKey && last && every.includes(last)) {
    const [from, to] = [every.indexOf(last), every.indexOf(box)].sort((a, b) => a - b);
    for (const each of every.slice(from, to + 1)) if (!each.disabled) each.checked = box.checked;
  }
  last = box;
  select();
});
all?.addEventListener("click", () => {
  for (const box of boxes()) if (!box.disabled) box.checked = all.checked;
  select();
});
addEventListener("pageshow", select);

if (all) all.hidden = false;
select();
copying.show();
// Only fields that say something go into the address.
document.querySelector("form[data-filters]")?.addEventListener("submit", (event) => {
  for (const field of event.target.elements) {
    const isDefault = !field.value || (field.name === "time" && (field.value === "created" && !hasTime(event.target)));
    if (isDefault) field.disabled = true;
  }
});

function hasTime(filters) {
  return ["last", "from", "to"].some((name) => filters.elements[name]?.value);
}

live?.watch(form.dataset.topics.split(" "), { show, reload });
