// The drawing of a run: which window is shown, which block is picked, and how hands and keys change it.

import * as layout from "./layout.js";
import { paint, written } from "./paint.js";

const SETTLES = 60; // milliseconds after the last move until the server is asked
const NEAR = 5; // pixels: less is a click, more a drag
const SAID = { done: "done", skipped: "skipped", running: "at work", pending: "left", error: "failed" };

export class Drawing extends EventTarget {
  #root;
  #stage;
  #canvas;
  #url;
  #picture = null;
  #painted = null;
  #picked = null;
  #drag = null;
  #asked = 0;
  #frame = 0;
  #timer = 0;
  window;

  constructor(root) {
    super();
    this.#root = root;
    this.#stage = root.querySelector("#stage");
    this.#canvas = root.querySelector("canvas");
    this.#url = root.dataset.picture;
    this.window = { begin: Number(root.dataset.begin), end: Number(root.dataset.end) };
    root.hidden = false;
    this.#hands();
    this.#keys();
    new ResizeObserver(() => this.#paint()).observe(this.#stage);
    const theme = new MutationObserver(() => this.#paint());
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#paint());
    addEventListener("hashchange", () => this.#byAddress());
    if (!this.#byAddress()) this.read();
  }

  /** The share of the range that is shown, as the server's pages take it. */
  get query() {
    const { begin, end } = this.window;
    return begin <= 0 && end >= 1 ? "" : `a=${begin}&b=${end}`;
  }

  /** Read the picture of the window again. */
  async read(query = this.query) {
    const asked = ++this.#asked;
    let answer;
    let found;
    try {
      answer = await fetch(`${this.#url}?${query}`, { headers: { Accept: "application/json" } });
      found = answer.ok && (await answer.json());
    } catch {
      return; // the live chip says that there is no network
    }
    if (asked !== this.#asked || this.#drag) return; // a hand was faster
    if (!answer.ok) return this.#say(answer.status === 400 ? "These keys are not in the run." : "The drawing could not be read.");
    this.#picture = found;
    const { begin, end } = this.#picture;
    const moved = begin !== this.window.begin || end !== this.window.end;
    this.window = { begin, end };
    if (this.#picked) this.#show(this.#block(this.#picked));
    this.#words();
    this.#paint();
    this.#address();
    if (moved) this.dispatchEvent(new Event("window"));
  }

  show(window) {
    this.window = window;
    this.#asked += 1; // what is on its way shows another window
    this.#paint();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      await this.read();
      this.dispatchEvent(new Event("window"));
    }, SETTLES);
  }

  do(name) {
    const { begin, end } = this.window;
    const picked = this.#picked && this.#block(this.#picked);
    const around = picked ? (picked.begin + picked.end) / 2 : (begin + end) / 2;
    switch (name) {
      case "in": return this.show(layout.zoom(this.window, 0.5, clamp(around, begin, end)));
      case "out": return this.show(layout.zoom(this.window, 2));
      case "fit": return this.show({ begin: 0, end: 1 });
      case "left": return this.show(layout.pan(this.window, -0.25));
      case "right": return this.show(layout.pan(this.window, 0.25));
      case "next": return this.#toFailure(1);
      case "previous": return this.#toFailure(-1);
      case "enter": return picked && this.show(layout.windowOf(picked.begin, picked.end));
      case "parent": return this.#pick(this.#block(this.#picked?.slice(0, -1)) ?? this.#first());
      case "child": return this.#pick(this.#picked === null ? this.#first() : this.#child());
      case "leave": return this.#pick(null);
    }
  }

  // Hands

  #hands() {
    const stage = this.#stage;
    stage.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const { x, y } = this.#point(event);
      const isStrip = this.#painted && y < layout.LAYOUT.overview;
      const place = x / (this.#painted?.width ?? 1);
      const inside = place >= this.window.begin && place <= this.window.end && this.query;
      const kind = isStrip ? (inside ? "move" : "brush") : "zoom";
      this.#drag = { kind, from: x, to: x, window: this.window };
      stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", (event) => {
      if (!this.#drag) return;
      this.#drag.to = this.#point(event).x;
      const { kind, from, to, window } = this.#drag;
      const by = (to - from) / this.#painted.width;
      if (kind === "move") this.window = layout.pan(window, by / (window.end - window.begin));
      if (kind === "brush" && Math.abs(to - from) > NEAR) {
        this.window = layout.windowOf(from / this.#painted.width, to / this.#painted.width);
      }
      this.#paint();
    });
    stage.addEventListener("pointerup", (event) => this.#dropped(this.#point(event)));
    stage.addEventListener("pointercancel", () => {
      if (this.#drag) this.window = this.#drag.window;
      this.#drag = null;
      this.#paint();
    });
    stage.addEventListener("dblclick", () => this.do("fit"));
    stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // the page scrolls
      event.preventDefault();
      const place = this.#place(this.#point(event).x);
      this.show(layout.zoom(this.window, 2 ** (event.deltaY / 200), place));
    }, { passive: false });
    this.#root.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-do]");
      if (button) this.do(button.dataset.do);
    });
  }

  #dropped({ x, y }) {
    const drag = this.#drag;
    this.#drag = null;
    if (!drag || !this.#painted) return;
    const isClick = Math.abs(x - drag.from) <= NEAR;
    if (drag.kind === "zoom" && isClick) return this.#pick(layout.pick(this.#painted.rects, x, y)?.block ?? null);
    if (drag.kind === "zoom") return this.show(layout.windowOf(this.#place(drag.from), this.#place(x)));
    if (isClick) {
      const span = this.query ? this.window.end - this.window.begin : 1 / 8;
      const middle = x / this.#painted.width;
      return this.show(layout.zoom({ begin: middle - span / 2, end: middle + span / 2 }, 1));
    }
    this.show(this.window);
  }

  #point(event) {
    const box = this.#canvas.getBoundingClientRect();
    return { x: clamp(event.clientX - box.left, 0, box.width), y: event.clientY - box.top };
  }

  #place(x) {
    const { begin, end } = this.window;
    return begin + ((end - begin) * x) / this.#painted.width;
  }

  // Keys

  #keys() {
    const names = {
      ArrowLeft: "left", ArrowRight: "right", ArrowUp: "parent", ArrowDown: "child", "+": "in", "=": "in",
      "-": "out", Home: "fit", End: "fit", n: "next", N: "previous", Enter: "enter", Escape: "leave",
    };
    this.#stage.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      let name = names[event.key];
      if (event.key === "Escape" && this.#picked === null) name = "fit";
      if (!name) return;
      event.preventDefault();
      event.stopPropagation();
      this.do(name);
    });
  }

  // The picked block

  #block(path) {
    return path === undefined || path === null ? null : this.#picture?.blocks.find((each) => each.path === path) ?? null;
  }

  #first() {
    const blocks = this.#picture?.blocks ?? [];
    return blocks.toSorted((one, other) => one.path.length - other.path.length || one.begin - other.begin)[0] ?? null;
  }

  #child() {
    return this.#block(`${this.#picked}0`) ?? this.#block(`${this.#picked}1`) ?? this.#block(this.#picked);
  }

  #pick(block) {
    this.#picked = block ? block.path : null;
    this.#show(block);
    if (block) this.#say(`Block ${written(block.lo)} to ${block.hi === null ? "the end" : written(block.hi)}, ${SAID[block.state]}`);
    this.#paint();
  }

  #show(block) {
    const side = this.#root.querySelector(".picked");
    side.querySelector("[data-empty]").hidden = Boolean(block);
    side.querySelector("dl").hidden = !block;
    side.querySelector("[data-zoom-to]").hidden = !block;
    if (!block) return;
    const turns = [...block.path].map((turn) => (turn === "0" ? "L" : "R")).join("") || "root";
    const texts = { state: SAID[block.state], lo: written(block.lo), hi: block.hi === null ? "the end" : written(block.hi), path: `${turns}, ${block.path.length}` };
    for (const name of ["processed", "skipped", "failed", "left"]) texts[name] = written(block[name]);
    for (const [name, text] of Object.entries(texts)) {
      const place = side.querySelector(`[data-field="${name}"]`);
      if (place.textContent !== text) place.textContent = text;
    }
  }

  #toFailure(way) {
    const found = layout.failing(this.#picture?.whole ?? []);
    if (!found.length) return this.#say("Nothing has failed.");
    const middle = (this.window.begin + this.window.end) / 2;
    const behind = found.filter(({ begin, end }) => way * ((begin + end) / 2 - middle) > 1e-9);
    const { begin, end } = (way > 0 ? behind[0] ?? found[0] : behind.at(-1) ?? found.at(-1));
    const span = Math.min(this.window.end - this.window.begin, Math.max(1 / 32, 2 * (end - begin)));
    this.show(layout.zoom({ begin: (begin + end - span) / 2, end: (begin + end + span) / 2 }, 1));
    this.#say(`Failure ${found.findIndex((each) => each.begin === begin) + 1} of ${found.length}`);
  }

  // What is said and shown

  #words() {
    const { from, to } = this.#picture;
    const percent = (this.window.end - this.window.begin) * 100;
    const share = percent >= 100 ? "whole range" : `${percent >= 0.1 ? percent.toFixed(1) : percent.toPrecision(2)} % of the range`;
    const text = this.query ? `${written(from)} to ${to === null ? "the end" : written(to)}, ${share}` : share;
    const place = this.#root.querySelector("#window-words");
    if (place.textContent !== text) place.textContent = text;
  }

  #say(text) {
    this.#root.querySelector("#drawing-said").textContent = text;
  }

  #paint() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      if (!this.#picture) return;
      const drag = this.#drag?.kind === "zoom" ? this.#drag : null;
      this.#painted = paint(this.#canvas, this.#picture, { window: this.window, picked: this.#picked, drag });
      this.#root.dataset.painted = String(Number(this.#root.dataset.painted ?? 0) + 1);
    });
  }

  // The address: #from=…&to=…, in keys

  #address() {
    const { from, to } = this.#picture ?? {};
    const isOurs = /^#(from|to)=/.test(location.hash);
    if (!this.query && !isOurs) return;
    const wanted = this.query ? `#${new URLSearchParams({ from, ...(to === null ? {} : { to }) })}` : "";
    if (wanted !== location.hash) history.replaceState(history.state, "", wanted || location.pathname + location.search);
  }

  #byAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!given.has("from") && !given.has("to")) return false;
    const asked = new URLSearchParams();
    for (const name of ["from", "to"]) if (given.has(name)) asked.set(name, given.get(name));
    this.read(asked.toString());
    return true;
  }
}

function clamp(value, least, most) {
  return Math.min(Math.max(value, least), most);
}
