// Keep parts of a page as the server has them now. What is in the same place changes in place; rows
// come and go only while nobody has the pointer or the focus there or below, so that nothing moves
// under a hand.

import { refill, same, tint } from "./patch.js";

const STILL = 4_000; // milliseconds after which a pointer that rests is nobody's hand

let movedAt = -Infinity;
let pointer = null;
addEventListener("pointermove", (event) => {
  movedAt = performance.now();
  pointer = event.pointerType === "touch" ? null : [event.clientX, event.clientY];
}, { passive: true });

/** Make `here` as `there` is. False if it has to wait until the pointer is elsewhere. */
export function merge(here, there) {
  if (same(here, there)) return true;
  const mine = keys(here);
  const theirs = keys(there);
  const alike = mine.length === theirs.length && mine.every((key, place) => key === theirs[place]);
  if (alike && skeleton(here) === skeleton(there)) {
    patch(here, there);
    return true;
  }
  if (isWatched(here)) {
    patch(here, there);
    return false;
  }
  replace(here, there, new Set(mine));
  return true;
}

/** Change the rows that are in both. Says how many are new, and leaves them out. */
export function keep(here, there) {
  patch(here, there);
  const mine = new Set(keys(here));
  return keys(there).filter((key) => !mine.has(key)).length;
}

/** Make `here` as `there` is, as somebody has asked for. */
export function take(here, there) {
  replace(here, there, new Set(keys(here)));
}

function keys(root) {
  return [...root.querySelectorAll("[data-row]")].map((row) => row.dataset.row);
}

function cells(root) {
  const found = new Map();
  for (const cell of root.querySelectorAll("[data-cell]")) {
    found.set(`${cell.closest("[data-row]")?.dataset.row ?? ""}\n${cell.dataset.cell}`, cell);
  }
  return found;
}

// What is left when the cells are taken out: if that is the same, changing cells is enough.
function skeleton(root) {
  const copy = root.cloneNode(true);
  for (const cell of copy.querySelectorAll("[data-cell]")) cell.replaceWith(document.createElement("slot"));
  for (const row of copy.querySelectorAll("[data-row]")) row.removeAttribute("class");
  for (const time of copy.querySelectorAll("time[data-ago], time[data-since]")) time.textContent = "";
  return copy.innerHTML.replace(/name="csrfmiddlewaretoken" value="[^"]*"/g, "");
}

function patch(here, there) {
  const theirs = cells(there);
  for (const [key, cell] of cells(here)) {
    const other = theirs.get(key);
    if (!other || isBusy(cell)) continue;
    if (!same(cell, other)) cell.replaceChildren(...other.cloneNode(true).childNodes);
    copyAttributes(cell, other);
  }
  const rows = new Map([...there.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
  for (const row of here.querySelectorAll("[data-row]")) {
    const other = rows.get(row.dataset.row);
    if (other) copyAttributes(row, other);
  }
}

function copyAttributes(here, there) {
  for (const { name, value } of there.attributes) {
    if (here.getAttribute(name) !== value) here.setAttribute(name, value);
  }
  for (const { name } of [...here.attributes]) if (!there.hasAttribute(name)) here.removeAttribute(name);
}

function replace(here, there, known) {
  const top = here.querySelector(".scroll")?.scrollLeft ?? 0;
  refill(here, there);
  copyAttributes(here, there);
  const scroll = here.querySelector(".scroll");
  if (scroll) scroll.scrollLeft = top;
  if (known.size) {
    for (const row of here.querySelectorAll("[data-row]")) if (!known.has(row.dataset.row)) tint(row);
  }
}

function isBusy(element) {
  if (element.querySelector("details.is-form[open], [data-armed]")) return true;
  return element.contains(document.activeElement);
}

/** Whether a hand is in this part, or in what lies below it and would move with it. */
export function isWatched(here) {
  if (isBusy(here)) return true;
  if (!pointer || performance.now() - movedAt > STILL) return false;
  const under = document.elementFromPoint(...pointer);
  if (!under || !document.querySelector("main").contains(under)) return false;
  if (here.contains(under)) return true;
  const column = here.closest("[data-column]");
  const isAside = column && column.dataset.column !== "top" && !column.contains(under);
  return !isAside && Boolean(here.compareDocumentPosition(under) & Node.DOCUMENT_POSITION_FOLLOWING);
}

