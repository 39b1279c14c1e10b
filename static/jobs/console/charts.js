// Two charts over one time: throughput and latency, with one cursor. Colours are those of the page,
// read from hidden elements, since a canvas knows no variables; the table below says the same.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { live } from "./live.js";
import { decades, whole } from "./scale.js";
import { clock, duration, zone } from "./times.js";

const EVERY = { "1h": 5_000, "6h": 20_000, "24h": 60_000, "7d": 120_000 };
const FONT = '11px -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif';
const SERIES = {
  throughput: [
    { name: "completed", word: "completed", tone: "good" },
    { name: "failed", word: "failed", tone: "bad" },
  ],
  latency: [
    { name: "wait", word: "wait", tone: "busy" },
    { name: "run", word: "run", tone: "calm" },
  ],
};

// Without colours the second line is told by its dashes.
const isReduced = document.documentElement.dataset.colours === "reduced";
const LINE = { stroke: () => colours.line, width: 1 };

const hour = clock({ hour: "2-digit", minute: "2-digit" });
const day = clock({ weekday: "short", day: "numeric" });
const moment = clock({ weekday: "short", hour: "2-digit", minute: "2-digit" });
const colours = {};
const charts = {};
let root = null;
let figures = null;
let askedAt = 0;

/** Again when the page has them anew, such as after their sums could not be read. */
export function start() {
  const isFirst = !root;
  root = document.querySelector("[data-charts]");
  const given = document.getElementById("figures");
  if (!root || !given) return;
  figures = JSON.parse(given.textContent);
  askedAt = performance.now();
  readColours();
  for (const name of Object.keys(SERIES)) charts[name] = make(name);
  for (const link of document.querySelectorAll("[data-span]")) link.addEventListener("click", choose);
  if (!isFirst) return;
  document.addEventListener("coppice:theme", recolour);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  live?.watch([], { show: (frame) => frame.stats && tick(), reload: () => load() });
}

/** Put them where their sums took too long before, as `page` has them now. */
export function revive(page) {
  const failed = document.querySelector('[data-failed="charts"]');
  const there = page.querySelector("[data-charts]");
  if (!failed || !there) return;
  failed.replaceWith(document.importNode(there, true));
  start();
}

// What is drawn

function data(name) {
  return [figures.times, ...SERIES[name].map((series) => figures[series.name].map((value) => drawn(name, value)))];
}

// A logarithm has no zero.
function drawn(name, value) {
  return name === "latency" && value !== null ? Math.max(value, 0.0005) : value;
}

function make(name) {
  const box = root.querySelector(`[data-chart="${name}"]`);
  const isLatency = name === "latency";
  const chart = new uPlot(
    {
      width: box.clientWidth || 600,
      height: box.clientHeight,
      padding: [8, 14, 0, 0],
      legend: { show: false },
      tzDate: (at) => uPlot.tzDate(new Date(Math.round(at * 1000)), zone),
      cursor: {
        y: false,
        drag: { x: false, y: false },
        sync: { key: "coppice" },
        points: { size: 7, width: 2, fill: (u, index) => colours[SERIES[name][index - 1].tone] },
      },
      scales: {
        x: { time: true },
        y: isLatency
          ? { distr: 3, log: 10, range: (u, least, most) => decades(least, most) }
          : { range: (u, least, most) => [0, Math.max(4, (most || 0) * 1.12)] },
      },
      axes: [axis({ values: (u, splits) => times(splits), size: 24, space: 72 }), axis({
        size: 52,
        space: 28,
        values: (u, splits) => splits.map((value) => (value === null ? "" : isLatency ? decade(value) : short(value))),
        ...(isLatency ? { filter: whole, grid: { ...LINE, filter: whole }, ticks: { ...LINE, size: 4, filter: whole } } : {}),
      })],
      series: [
        {},
        ...SERIES[name].map(({ tone }, place) => ({
          stroke: () => colours[tone],
          fill: isLatency ? undefined : (u) => fade(u, colours[tone]),
          width: 1.75,
          dash: isReduced && place ? [6, 4] : undefined,
          spanGaps: false,
          points: { show: (u, index, from, to) => isAlone(u, index, from, to), size: 5, fill: () => colours[tone] },
        })),
      ],
      hooks: { setCursor: [(u) => legend(name, u.cursor.idx)] },
    },
    data(name),
    box,
  );
  new ResizeObserver(() => box.clientWidth && chart.setSize({ width: box.clientWidth, height: box.clientHeight })).observe(box);
  legend(name, null);
  return chart;
}

function axis(more) {
  return {
    font: FONT,
    stroke: () => colours.quiet,
    grid: LINE,
    ticks: { ...LINE, size: 4 },
    gap: 4,
    ...more,
  };
}

function decade(value) {
  return value < 0.999 ? `${Math.round(value * 1000)} ms` : `${Math.round(value).toLocaleString("en")} s`;
}

// A value with gaps on both sides would not be seen as a line.
function isAlone(u, series, from, to) {
  const values = u.data[series];
  for (let at = from; at <= to; at++) {
    if (values[at] !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null) return true;
  }
  return false;
}

function times(splits) {
  const long = figures.step >= 7_200;
  return splits.map((at) => (long ? day : hour)(at * 1000));
}

function short(value) {
  if (value >= 1e6) return `${trim(value / 1e6)} M`;
  if (value >= 1e4) return `${trim(value / 1e3)} k`;
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
}

function trim(value) {
  return Number(value.toPrecision(3)).toLocaleString("en");
}

// What is said beside it

function legend(name, index) {
  const line = root.querySelector(`[data-legend="${name}"]`);
  const last = figures.times.length - 1;
  const at = index ?? (name === "latency" ? newest() : last);
  const parts = [word("span", at < 0 ? "" : `${index === null || index === undefined ? "" : `${moment(figures.times[at] * 1000)}`}`)];
  for (const series of SERIES[name]) {
    const value = figures[series.name][at] ?? null;
    const text = value === null ? "–" : name === "latency" ? duration(value) : short(value);
    const part = word("span", `${series.word} `);
    part.className = series.tone;
    part.prepend(document.createElement("i"));
    part.append(word("b", text));
    parts.push(part);
  }
  line.replaceChildren(...parts);
}

function newest() {
  return figures.wait.findLastIndex((value) => value !== null);
}

function word(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

// Colours

function readColours() {
  for (const tone of ["good", "bad", "busy", "calm", "quiet", "line"]) {
    const probe = root.querySelector(`.probe-${tone}`);
    probe.hidden = false;
    colours[tone] = getComputedStyle(probe).color;
    probe.hidden = true;
  }
}

function recolour() {
  readColours();
  for (const chart of Object.values(charts)) chart.redraw(false);
}

function fade(u, colour) {
  const { top, height } = u.bbox;
  if (!height) return "transparent";
  const made = u.ctx.createLinearGradient(0, top, 0, top + height);
  made.addColorStop(0, alpha(colour, 0.28));
  made.addColorStop(1, alpha(colour, 0.03));
  return made;
}

function alpha(colour, share) {
  const parts = colour.match(/[\d.]+/g);
  return parts && colour.startsWith("rgb") ? `rgba(${parts.slice(0, 3).join(", ")}, ${share})` : colour;
}

// What is new

function tick() {
  if (performance.now() - askedAt > EVERY[figures.span]) load();
}

async function load(span = figures.span) {
  askedAt = performance.now();
  const url = new URL(root.dataset.charts, location.href);
  url.searchParams.set("span", span);
  if (root.dataset.queue) url.searchParams.set("queue", root.dataset.queue);
  const found = await fetched(url);
  root.querySelector(".chart-late").hidden = Boolean(found);
  if (!found) return false; // the next tick asks again
  figures = found;
  for (const [name, chart] of Object.entries(charts)) {
    chart.setData(data(name));
    legend(name, chart.cursor.idx);
  }
  root.querySelector(".chart-empty").hidden = [...figures.completed, ...figures.failed].some(Boolean);
  table();
  return true;
}

async function fetched(url) {
  try {
    const answer = await fetch(url, { headers: { Accept: "application/json" } });
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

async function choose(event) {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const link = event.currentTarget;
  if (!(await load(link.dataset.span))) {
    location.assign(link.href); // the server says what is wrong
    return;
  }
  for (const each of document.querySelectorAll("[data-span]")) each.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  history.replaceState(null, "", link.href);
}

function table() {
  const body = root.querySelector(".twin tbody");
  const rows = figures.times.map((at, place) => {
    const row = document.createElement("tr");
    const head = word("th", moment(at * 1000));
    head.scope = "row";
    row.append(head);
    for (const name of ["completed", "failed", "wait", "run"]) {
      const value = figures[name][place];
      const isTime = name === "wait" || name === "run";
      const cell = word("td", value === null ? "–" : isTime ? duration(value) : value.toLocaleString("en", { maximumFractionDigits: 1 }));
      cell.className = "num";
      row.append(cell);
    }
    return row;
  });
  body.replaceChildren(...rows.reverse());
}
