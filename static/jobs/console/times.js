// Times as "5 min ago", kept right by the server's clock, in the words of jobs/console/words.py.

const UNITS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

const { adminServerTimezone, adminUtcOffset } = document.body.dataset;
/** The zone that the whole page is in, if this browser knows it. */
export const zone = isKnown(adminServerTimezone) ? adminServerTimezone : undefined;
const offset = Number(document.body.dataset.now || 0) * 1000 - performance.timeOrigin - performance.now();

/** The server's time in milliseconds, as this page knows it. */
export function now() {
  return performance.timeOrigin + performance.now() + (document.body.dataset.now ? offset : 0);
}

export function ago(milliseconds, at = now()) {
  const seconds = (at - milliseconds) / 1000;
  const length = Math.abs(seconds);
  if (length < 1) return "now";
  const [size, unit] = UNITS.find(([size]) => length >= size);
  const text = `${Math.floor(length / size).toLocaleString("en")} ${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.max(0, seconds * 1000).toFixed(0)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  let left = Math.round(seconds);
  const parts = [];
  for (const [size, unit] of UNITS) {
    const amount = Math.floor(left / size);
    left %= size;
    if (amount || parts.length) parts.push([amount, unit]);
  }
  return parts
    .slice(0, 2)
    .filter(([amount]) => amount)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

/** Moments as people read them, in the zone that the whole page is in: milliseconds to text. */
export function clock(options, language = "en-GB") {
  const shown = { ...options, hourCycle: "h23", timeZone: zone ?? "UTC" };
  const format = new Intl.DateTimeFormat(language, shown);
  // Of another zone the server has said how far it is from UTC now.
  const shift = zone ? 0 : Number(adminUtcOffset ?? 0) * 1000;
  return (milliseconds) => format.format(milliseconds + shift);
}

function isKnown(name) {
  try {
    return Boolean(name && new Intl.DateTimeFormat("en-GB", { timeZone: name }));
  } catch {
    return false;
  }
}

/** "2026-11-30 09:12:44", as the server writes the title of a time. */
export const stamp = clock(
  { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" },
  "sv-SE",
);

function tick() {
  const at = now();
  for (const time of document.querySelectorAll("time[data-ago]")) {
    write(time, ago(Date.parse(time.dateTime), at));
  }
  // "3.2 s" since a moment, for what is going on; whole seconds are enough for a page.
  for (const time of document.querySelectorAll("time[data-since]")) {
    const seconds = Math.max(0, (at - Date.parse(time.dateTime)) / 1000);
    write(time, duration(seconds < 60 ? Math.floor(seconds) || seconds : seconds));
  }
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function start() {
  tick();
  setInterval(() => document.hidden || tick(), 1000);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
}
