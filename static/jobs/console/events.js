// The log, followed: the newest lines are added on top, in a ring of 2,000. The live feed says that
// there is something new, and how much; the lines themselves come from the server, as the page has
// them, at most 40 a second. What happens to queues, workers, schedules and runs is no line of the
// log: that is told by the feed alone, and marked.
//
// While somebody reads (the list is scrolled, a hand is in it, or text is selected) nothing moves:
// new lines wait, and say how many they are.

import * as copying from "./copying.js";
import { live } from "./live.js";
import { clone, fetchPage, throttled } from "./patch.js";
import { clock } from "./times.js";

const RING = 2_000;
const EVERY = 1_000; // milliseconds between two looks at the newest lines
const LATE = 3_000; // lines of long transactions come behind younger ones: so far each look goes back
const FEW = 1_000; // ids that the first look goes back
const STILL = 4_000; // after which a pointer that rests is nobody's hand
const RATE_OVER = 2_000;

// What the feed tells about jobs that is no line of the log, or is one together with another event.
const NO_LINE = new Set(["job.created", "job.failed", "job.progress", "job.purged"]);
const TOLD = /^(queue|worker|schedule|bulk|range|type|alert|jobs)\./;
const SILENT = /_updated$|^bulk\.updated$/;

const instant = clock(
  {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
    fractionalSecondDigits: 3,
  },
  "sv-SE",
);

const bar = document.getElementById("follow");
const scroll = document.getElementById("lines");
const isFirstPage = Boolean(bar && "follow" in bar.dataset);
const body = scroll?.querySelector("tbody");
const known = new Set();
const waiting = []; // rows that are not in the list yet, the newest first
let isFollowing = false;
let missed = 0; // lines that were told while nobody followed
let hasGap = false;
let lowest = 0; // the last line of the page as it was made
let highest = 0; // the newest line that was taken
let marks = [];
let told = []; // [when, lines, whether there may be more]: what the feed told in the last seconds
let shown = 0; // lines that the last look brought
let gapAt = -Infinity;
let movedAt = -Infinity;
let isReading = false;
let levels = {};
let facts = [];

function start() {
  levels = JSON.parse(document.getElementById("told-levels").textContent);
  facts = JSON.parse(document.getElementById("told-facts").textContent);
  marks = [{ at: performance.now(), id: Number(bar.dataset.newest) }];
  for (const row of body.querySelectorAll("[data-row]")) know(row);
  lowest = Number(body.lastElementChild?.dataset.row ?? 0);
  const button = document.getElementById("follow-switch");
  button.hidden = false;
  button.addEventListener("click", () => follow(!isFollowing));
  document.getElementById("follow-thaw").addEventListener("click", () => {
    scroll.scrollTop = 0;
    if (isFollowing) thaw();
    else follow(true);
  });
  const aloud = document.getElementById("follow-aloud");
  aloud.closest("label").hidden = false;
  aloud.addEventListener("change", () => scroll.setAttribute("aria-live", aloud.checked ? "polite" : "off"));
  scroll.addEventListener("pointermove", () => (movedAt = performance.now()), { passive: true });
  scroll.addEventListener("pointerleave", () => {
    movedAt = -Infinity;
    settle();
  });
  scroll.addEventListener("scroll", settle, { passive: true });
  scroll.addEventListener("focusout", () => setTimeout(settle));
  setInterval(() => {
    settle();
    draw();
  }, 500);
  live.addEventListener("state", draw);
  live.watch(bar.dataset.topics.split(" "), { show, reload: () => isFollowing && read() });
  follow(document.body.dataset.log !== "still"); // as the reader has chosen under Display
}

function know(row) {
  known.add(row.dataset.row);
  highest = Math.max(highest, Number(row.dataset.row));
}

function follow(wanted) {
  isFollowing = wanted;
  document.getElementById("follow-switch").setAttribute("aria-pressed", String(wanted));
  scroll.classList.toggle("is-followed", wanted);
  missed = 0;
  if (wanted) read();
  draw();
}

// What the feed tells

function show(frame) {
  let lines = 0;
  for (const event of frame.events) {
    if (event.name.startsWith("job.")) lines += isLine(event.name) && isMeant(event);
    else if ("tellsAll" in bar.dataset && isFollowing && isTold(event)) add([line(event)]);
  }
  let isMore = false;
  for (const [name, count] of Object.entries(frame.left_out)) {
    if (name === "other") isMore = true;
    else if (isLine(name)) lines += count;
  }
  if (!lines && !isMore) return;
  told.push([performance.now(), lines, isMore]);
  if (isFollowing) read();
  else missed += lines;
  draw();
}

function isLine(name) {
  return name.startsWith("job.") && !NO_LINE.has(name);
}

// A handler's line is told without its type and queue.
function isMeant(event) {
  if (event.name === "job.log") return true;
  const { queue, type, job } = bar.dataset;
  return (!queue || event.queue === queue) && (!type || event.type === type) && (!job || event.job_id === job);
}

function isTold(event) {
  const { queue, level } = bar.dataset;
  if (!TOLD.test(event.name) || SILENT.test(event.name) || (queue && event.queue !== queue)) return false;
  const tone = levels[event.name] ?? "info";
  return { warning: tone !== "info", error: tone === "error" }[level] ?? true;
}

// Lines as the server has them

const read = throttled(async () => {
  if (isReading || !isFollowing) return;
  isReading = true;
  try {
    const url = new URL(bar.dataset.lines, location.href);
    url.searchParams.set("since", String(since()));
    const page = await fetchPage(url);
    const answer = page?.getElementById("follow");
    if (!answer || !isFollowing) return;
    const rows = [...page.querySelectorAll("tr[data-row]")];
    const fresh = rows.filter((row) => !known.has(row.dataset.row) && Number(row.dataset.row) > lowest);
    marks.push({ at: performance.now(), id: Number(answer.dataset.newest) });
    shown = fresh.length;
    const isBroken = known.size > 0 && fresh.length > 0 && fresh.length === rows.length && rows.length >= Number(bar.dataset.most);
    if (isBroken) gapAt = performance.now();
    take(fresh.map((row) => document.importNode(row, true)), isBroken);
  } finally {
    isReading = false;
  }
}, EVERY);

// The newest line that was known a while ago: what is younger may yet come late.
function since() {
  const old = marks.filter(({ at }) => performance.now() - at >= LATE);
  if (!old.length) return Math.max(0, marks[0].id - FEW);
  marks = marks.slice(old.length - 1);
  return marks[0].id;
}

function take(rows, isBroken) {
  if (!rows.length) return;
  const before = highest;
  for (const row of rows) {
    if (Number(row.dataset.row) < before) row.dataset.late = "";
    know(row);
  }
  if (isBroken) rows.push(clone("gap-line"));
  add(rows);
}

function add(rows) {
  waiting.unshift(...rows);
  if (waiting.length > RING) {
    for (const row of waiting.splice(RING)) known.delete(row.dataset.row);
    hasGap = true;
  }
  hasGap ||= rows.some((row) => row.matches(".gap"));
  settle();
  draw();
}

function settle() {
  if (waiting.length && !isFrozen()) thaw();
}

function isFrozen() {
  if (live.paused || scroll.scrollTop > 4 || body.contains(document.activeElement)) return true;
  if (performance.now() - movedAt < STILL && scroll.matches(":hover")) return true;
  const selection = getSelection();
  return selection.type === "Range" && scroll.contains(selection.anchorNode);
}

function thaw() {
  document.getElementById("nothing")?.remove();
  scroll.hidden = false;
  const rows = waiting.splice(0);
  body.prepend(...rows.filter((row) => !("late" in row.dataset)));
  for (const row of rows) if ("late" in row.dataset) place(row);
  while (body.childElementCount > RING) {
    known.delete(body.lastElementChild.dataset.row);
    body.lastElementChild.remove();
  }
  hasGap = false;
  foot();
  copying.show();
  draw();
}

// Below the list: how many lines there are now, and that older ones begin behind the last of them.
function foot() {
  const rows = body.querySelectorAll("[data-row]");
  const older = document.querySelector(".foot a[rel=next]");
  const place = document.querySelector(".foot > span");
  if (place) write(place, `${number(rows.length)} shown${older ? ", more follow" : ""}`);
  if (!older || !rows.length) return;
  const url = new URL(older.href);
  url.searchParams.set("after", rows[rows.length - 1].dataset.row);
  older.href = url.href;
}

// A line whose transaction ended late stands where it belongs.
function place(row) {
  for (const other of body.querySelectorAll("[data-row]")) {
    if (Number(other.dataset.row) < Number(row.dataset.row)) return other.before(row);
  }
  body.append(row);
}

// Words above the list

function draw() {
  const pill = document.getElementById("follow-thaw");
  const count = isFollowing ? waiting.filter((row) => !row.matches(".gap")).length : missed;
  const text = `${number(count)}${hasGap && isFollowing ? "+" : ""} new line${count === 1 ? "" : "s"}`;
  pill.hidden = !count;
  if (count && pill.textContent !== text) pill.textContent = text;
  const state = document.getElementById("follow-state");
  write(state, words());
  state.classList.toggle("is-flood", isFollowing && performance.now() - gapAt <= RATE_OVER);
}

function words() {
  if (!isFollowing) return "";
  if (live.paused) return "paused";
  if (live.state === "reconnecting" || live.state === "offline") return "waiting for the connection";
  const at = performance.now();
  told = told.filter(([when]) => at - when <= RATE_OVER);
  if (at - gapAt > RATE_OVER) return waiting.length ? "new lines wait" : "new lines come by themselves";
  const rate = Math.round(told.reduce((sum, [, lines]) => sum + lines, 0) / (RATE_OVER / 1_000));
  const isMore = told.some(([, , more]) => more);
  const most = "narrowed" in bar.dataset ? "up to " : isMore ? "more than " : "";
  return `showing ${shown} of ${most}${number(Math.max(rate, shown))}/s`;
}

function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function number(value) {
  return value.toLocaleString("en");
}

// A line that only the feed tells

function line(event) {
  const row = clone("told-line");
  const at = new Date(event.at * 1000);
  const level = levels[event.name] ?? "info";
  const cell = (name) => row.querySelector(`.c-${name}`);
  if (level !== "info") row.classList.add(`is-${level}`);
  const time = row.querySelector("time");
  time.dateTime = at.toISOString();
  time.textContent = instant(at.getTime()).replace(",", ".");
  const word = cell("level").firstElementChild;
  word.textContent = level;
  word.classList.add(`level-${level}`);
  cell("event").textContent = event.name.replace(/[._]/g, " ");
  cell("type").append(event.type || none());
  cell("queue").append(event.queue || none());
  if (event.job_id) {
    const link = document.createElement("a");
    link.href = `${bar.dataset.jobs}${encodeURIComponent(event.job_id)}/`;
    link.className = "mono";
    link.textContent = event.job_id.slice(-8);
    cell("job").append(link);
  } else {
    cell("job").append(none());
  }
  const by = event.facts.by ?? event.facts.name;
  cell("by").append(by || none());
  const rest = facts.filter((name) => name !== "by" && name !== "name");
  const text = rest.map((name) => event.facts[name]).filter(Boolean).join(" · ").slice(0, 500);
  cell("message").textContent = text;
  const copied = [at.toISOString(), level, event.name, event.type, event.job_id, event.queue && `queue=${event.queue}`, by && `by=${by}`, text];
  cell("copy").firstElementChild.dataset.copy = copied.filter(Boolean).join(" ");
  return row;
}

function none() {
  const made = document.createElement("span");
  made.className = "none";
  made.textContent = "–";
  return made;
}

copying.show();
// Only fields that say something go into the address.
document.querySelector("form[data-filters]")?.addEventListener("submit", (event) => {
  for (const field of event.target.elements) if (!field.value) field.disabled = true;
});
// After Back, what was left out can be filled in again.
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[data-filters] :disabled")) field.disabled = false;
});
if (isFirstPage && live) start();
