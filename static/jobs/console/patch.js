// Put what the server says now into the page, in place: nothing moves, nothing vanishes under the
// pointer, what is selected or typed stays. The server's own page is the only source of markup; it
// is parsed as a document of its own, in which no script runs.
//
//   <div data-part="attempts">...</div>        parts are known by this,
//   <tr data-row="0198...">                    rows by this
//   <td data-cell="state">                     and their cells by this

const waiting = new Map();

/** The page at `url` as the server has it now; null if it cannot be had. */
export async function fetchPage(url = location.href) {
  try {
    const answer = await fetch(url, { headers: { "X-Coppice-Part": "1" } });
    if (answer.redirected && new URL(answer.url).pathname !== new URL(url, location.href).pathname) return null;
    if (answer.status >= 500) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return null;
  }
}

/** Put a part of `page` here, but for one that somebody is working in: that is left for the next time. */
export function replacePart(name, page) {
  const here = document.querySelector(`[data-part="${name}"]`);
  const there = page.querySelector(`[data-part="${name}"]`);
  if (!here || !there || same(here, there) || isBusy(here)) return;
  refill(here, there);
  here.dispatchEvent(new CustomEvent("coppice:part", { bubbles: true }));
}

/** Put into `here` what is in `there`. What is open stays open, and the focus stays where it is. */
export function refill(here, there) {
  const open = [...here.querySelectorAll("details[open][id]")].map((details) => details.id);
  const focused = here.contains(document.activeElement) ? markOf(document.activeElement) : null;
  here.replaceChildren(...there.cloneNode(true).childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) {
    const found = [...here.querySelectorAll("a, button, summary, [tabindex]")].find((each) => markOf(each) === focused);
    found?.focus({ preventScroll: true });
  }
}

// What tells it from others, also when it is made anew.
function markOf(element) {
  const row = element.closest("[data-row]")?.dataset.row;
  const { tagName, id, name, value, textContent } = element;
  return JSON.stringify([row, tagName, id, name, value, element.getAttribute("href"), textContent.trim()]);
}

/** Patch the rows that are here with what the server says of them. Returns the rows that are new. */
export function patchRows(table, page, { gone = true } = {}) {
  const theirs = new Map();
  for (const row of page.querySelectorAll("tr[data-row]")) theirs.set(row.dataset.row, row);
  for (const row of table.querySelectorAll("tr[data-row]")) {
    const there = theirs.get(row.dataset.row);
    if (there) patchRow(row, there);
    else if (gone) row.classList.add("is-gone");
    theirs.delete(row.dataset.row);
  }
  return [...theirs.values()];
}

function patchRow(row, there) {
  row.classList.remove("is-gone", "is-doubtful");
  let changed = false;
  for (const cell of row.querySelectorAll("[data-cell]")) {
    const other = there.querySelector(`[data-cell="${cell.dataset.cell}"]`);
    if (!other || same(cell, other)) continue;
    cell.replaceChildren(...other.cloneNode(true).childNodes);
    changed = true;
  }
  for (const { name, value } of there.attributes) if (name.startsWith("data-")) row.setAttribute(name, value);
  if (changed) tint(row);
}

/** A short tint for what has changed; none if motion is not wanted. */
export function tint(row) {
  row.classList.remove("is-new");
  void row.offsetWidth; // begin the animation anew
  row.classList.add("is-new");
}

/** Call at most once each `milliseconds`, and once more for what came meanwhile. */
export function throttled(call, milliseconds) {
  return (...values) => {
    const kept = waiting.get(call);
    if (kept) {
      kept.values = values;
      return;
    }
    const entry = { values: null };
    waiting.set(call, entry);
    setTimeout(() => {
      waiting.delete(call);
      if (entry.values) throttled(call, milliseconds)(...entry.values);
    }, milliseconds);
    call(...values);
  };
}

/** A copy of the page's <template id>, with `data-text` places filled in as text. */
export function clone(id, texts = {}) {
  const made = document.getElementById(id).content.cloneNode(true);
  for (const place of made.querySelectorAll("[data-text]")) {
    if (place.dataset.text in texts) place.textContent = texts[place.dataset.text];
  }
  return made.firstElementChild;
}

export function same(here, there) {
  return plain(here) === plain(there);
}

// Relative times go on by themselves: only the moment counts.
function plain(element) {
  const copy = element.cloneNode(true);
  for (const time of copy.querySelectorAll("time[data-ago], time[data-since]")) time.textContent = "";
  return copy.innerHTML.replace(/name="csrfmiddlewaretoken" value="[^"]*"/g, "");
}

function isBusy(element) {
  if (element.querySelector("dialog[open], details.is-form[open], [data-armed]")) return true;
  const active = document.activeElement;
  return element.contains(active) && active.matches("input, select, textarea");
}
