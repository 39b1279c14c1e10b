// The events of a run, the newest first. While somebody reads them (the pointer or the focus is
// there, or the list is scrolled), or has switched following off, new ones wait and say how many.

import { merge } from "../jobs/console/refresh.js";

export class Log {
  #part;
  #tools;
  #follow;
  #button;
  #kept = null;

  constructor(part, tools) {
    this.#part = part;
    this.#tools = tools;
    this.#follow = tools.querySelector("input");
    this.#button = tools.querySelector("button");
    tools.hidden = false;
    this.#button.addEventListener("click", () => this.#show());
    this.#follow.addEventListener("change", () => this.#thaw());
    part.addEventListener("pointerleave", () => this.#thaw());
    part.addEventListener("focusout", () => this.#thaw());
    part.addEventListener("scroll", () => this.#thaw(), { capture: true, passive: true });
  }

  /** What the server has now. */
  take(there) {
    this.#kept = there;
    this.#thaw();
  }

  #isFrozen() {
    const list = this.#part.querySelector("ol");
    return !this.#follow.checked || this.#part.matches(":hover") || this.#part.contains(document.activeElement) || (list?.scrollTop ?? 0) > 4;
  }

  #thaw() {
    if (this.#kept && !this.#isFrozen()) this.#show();
    else this.#say();
  }

  #show() {
    const kept = this.#kept;
    this.#kept = null;
    const list = this.#part.querySelector("ol");
    if (list) list.scrollTop = 0;
    if (kept && !merge(this.#part, kept)) this.#part.replaceChildren(...kept.cloneNode(true).childNodes);
    this.#say();
  }

  #say() {
    const here = new Set([...this.#part.querySelectorAll("li")].map((line) => line.dataset.row));
    const lines = [...(this.#kept?.querySelectorAll("li") ?? [])].filter((line) => !here.has(line.dataset.row));
    this.#button.hidden = !lines.length;
    const words = `${lines.length} new`;
    if (this.#button.textContent !== words) this.#button.textContent = words;
  }
}
