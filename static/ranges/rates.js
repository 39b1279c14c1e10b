// Two charts over the time of a run: rows a second, and how long its leaves take. Colours are those
// of the page, read from hidden elements, since a canvas knows no variables; the table below says the
// same. The run notes how far it is about every ten seconds, so the charts ask no more often.

import uPlot from "../jobs/vendor/uplot/uPlot.esm.js";
import { decades, whole } from "../jobs/console/scale.js";
import { clock, duration } from "../jobs/console/times.js";

const FONT = '11px -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif';
const DAY = 86_400;
const CHARTS = {
  rows: { series: [{ name: "rows", word: "rows/s", tone: "good" }], isTime: false },
  leaves: {
    series: [
      { name: "p50", word: "p50", tone: "busy" },
      { name: "p95", word: "p95", tone: "calm" },
    ],
    isTime: true,
  },
};

const second = clock({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minute = clock({ hour: "2-digit", minute: "2-digit" });
const hour = clock({ weekday: "short", hour: "2-digit", minute: "2-digit" });

export class Rates {
  #root;
  #figures;
  #colours = {};
  #charts = {};

  constructor(root) {
    this.#root = root;
    this.#figures = JSON.parse(document.getElementById("rates").textContent);
    this.#readColours();
    for (const name of Object.keys(CHARTS)) this.#charts[name] = this.#make(name);
    const recolour = () => {
      this.#readColours();
      for (const chart of Object.values(this.#charts)) chart.redraw(false);
    };
    document.addEventListener("coppice:theme", recolour);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  }

  /** Ask for what has been noted since. */
  async read() {
    let found;
    try {
      const answer = await fetch(this.#root.dataset.rates, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      found = await answer.json();
    } catch {
      return; // the live chip says that there is no network
    }
    this.#figures = found;
    for (const [name, chart] of Object.entries(this.#charts)) {
      chart.setData(this.#data(name));
      this.#legend(name, chart.cursor.idx);
    }
    this.#root.querySelector(".chart-empty").hidden = found.rows.some((value) => value !== null);
    this.#root.dataset.drawn = String(found.times.length);
  }

  #data(name) {
    const { series, isTime } = CHARTS[name];
    const { begin, times } = this.#figures;
    if (!times.length) return [[], ...series.map(() => [])];
    // A logarithm has no zero. The first place is the start, at which nothing has been done.
    const drawn = (value) => (isTime && value !== null ? Math.max(value, 0.0005) : value);
    return [[begin, ...times], ...series.map((each) => [null, ...this.#figures[each.name].map(drawn)])];
  }

  #make(name) {
    const { series, isTime } = CHARTS[name];
    const box = this.#root.querySelector(`[data-chart="${name}"]`);
    const colours = this.#colours;
    const line = { stroke: () => colours.line, width: 1 };
    const axis = (more) => ({ font: FONT, stroke: () => colours.quiet, grid: line, ticks: { ...line, size: 4 }, gap: 4, ...more });
    const tens = isTime ? { filter: whole, grid: { ...line, filter: whole }, ticks: { ...line, size: 4, filter: whole } } : {};
    const chart = new uPlot(
      {
        width: box.clientWidth || 600,
        height: box.clientHeight,
        padding: [8, 14, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          drag: { x: false, y: false },
          sync: { key: "coppice-run" },
          points: { size: 7, width: 2, fill: (u, index) => colours[series[index - 1].tone] },
        },
        scales: {
          x: { time: true },
          y: isTime
            ? { distr: 3, log: 10, range: (u, least, most) => decades(least, most) }
            : { range: (u, least, most) => [0, Math.max(4, (most || 0) * 1.12)] },
        },
        axes: [
          axis({ values: (u, splits) => splits.map((at) => this.#time(at)), size: 24, space: 84 }),
          axis({
            size: 52,
            space: 28,
            values: (u, splits) => splits.map((value) => (value === null ? "" : isTime ? decade(value) : short(value))),
            ...tens,
          }),
        ],
        series: [
          {},
          ...series.map(({ tone }) => ({
            stroke: () => colours[tone],
            width: 1.75,
            spanGaps: false,
            points: { show: alone, size: 5, fill: () => colours[tone] },
          })),
        ],
        hooks: { setCursor: [(u) => this.#legend(name, u.cursor.idx)] },
      },
      this.#data(name),
      box,
    );
    new ResizeObserver(() => box.clientWidth && chart.setSize({ width: box.clientWidth, height: box.clientHeight })).observe(box);
    this.#legend(name, null);
    return chart;
  }

  #time(at) {
    const { begin, times } = this.#figures;
    const span = (times.at(-1) ?? 0) - (begin ?? 0);
    return (span > DAY ? hour : span > 600 ? minute : second)(at * 1000);
  }

  #legend(name, index) {
    const { series, isTime } = CHARTS[name];
    const { times } = this.#figures;
    const isPointed = typeof index === "number" && index > 0;
    const place = isPointed ? index - 1 : this.#figures[series[0].name].findLastIndex((value) => value !== null);
    const parts = [word("span", isPointed ? second(times[place] * 1000) : "")];
    for (const each of series) {
      const value = this.#figures[each.name][place] ?? null;
      const part = word("span", `${each.word} `);
      part.className = each.tone;
      part.prepend(document.createElement("i"));
      part.append(word("b", value === null ? "–" : isTime ? duration(value) : short(value)));
      parts.push(part);
    }
    this.#root.querySelector(`[data-legend="${name}"]`).replaceChildren(...parts);
  }

  #readColours() {
    for (const probe of this.#root.querySelectorAll(".probe")) {
      probe.hidden = false;
      this.#colours[probe.dataset.tone] = getComputedStyle(probe).color;
      probe.hidden = true;
    }
  }
}

function decade(value) {
  return value < 0.999 ? `${Number((value * 1000).toPrecision(3))} ms` : `${Math.round(value).toLocaleString("en")} s`;
}

// A value with gaps on both sides would not be seen as a line.
function alone(u, series, from, to) {
  const values = u.data[series];
  for (let at = from; at <= to; at++) {
    if (values[at] !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null) return true;
  }
  return false;
}

function short(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3)).toLocaleString("en")} M`;
  if (value >= 1e4) return `${Number((value / 1e3).toPrecision(3)).toLocaleString("en")} k`;
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
}

function word(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
