// Rectangles onto a canvas. State is told by pattern as well as by colour: done is solid, skipped
// hatched, work is outlined, a failure is solid with a notch, what is left is empty.

import { LAYOUT, columns, icicle, levels, mix, plan, stretches } from "./layout.js";

const NAMES = ["surface", "sunk", "line", "edge", "ink", "quiet", "accent", "good", "busy", "bad", "calm", "calm-tint", "busy-tint"];
const LABEL = 60; // pixels that a block needs to have one

/** Paint all of it; returns the rectangles, for what is clicked. */
export function paint(canvas, picture, { window, picked = null, drag = null }) {
  const width = Math.max(1, Math.floor(canvas.parentElement.clientWidth));
  const where = plan(levels(picture.blocks));
  const pen = prepared(canvas, width, where.height);
  const look = looks(canvas, pen);
  strip(pen, look, picture.whole, width, where.overview, LAYOUT.overview);
  bracket(pen, look, window, width, where.overview, LAYOUT.overview);
  // While a picture of another window is awaited, the old one is drawn where it lies in the new.
  const rects = icicle(picture.blocks, window, width, where.bands);
  for (const rect of rects) block(pen, look, rect);
  const isOwn = window.begin === picture.begin && window.end === picture.end;
  strip(pen, look, isOwn ? picture.strip : cut(picture, window), width, where.strip, LAYOUT.strip);
  axis(pen, look, picture, width, where.axis);
  const chosen = rects.find((rect) => rect.block.path === picked);
  if (chosen) outline(pen, chosen, look.ink, 2);
  if (drag) dragged(pen, look, drag, where);
  return { rects, where, width };
}

function prepared(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// The page's own colours, whatever the theme.
function looks(canvas, pen) {
  const probe = document.createElement("i");
  probe.hidden = true;
  canvas.parentElement.append(probe);
  const found = {};
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  found.hatch = hatch(pen, found);
  return found;
}

function hatch(pen, look) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const own = tile.getContext("2d");
  own.fillStyle = look["calm-tint"];
  own.fillRect(0, 0, 6, 6);
  own.strokeStyle = look.calm;
  own.lineWidth = 1.25;
  own.beginPath();
  for (const [x, y, u, v] of [[-1, 1, 1, -1], [0, 6, 6, 0], [5, 7, 7, 5]]) {
    own.moveTo(x, y);
    own.lineTo(u, v);
  }
  own.stroke();
  return pen.createPattern(tile, "repeat");
}

function strip(pen, look, runs, width, top, height) {
  pen.fillStyle = look.sunk;
  pen.fillRect(0, top, width, height);
  const found = stretches(columns(runs, width));
  for (const { x, width: wide, done, skipped } of found) {
    const high = Math.round(height * done);
    const hatched = Math.min(height - high, Math.round(height * skipped));
    pen.fillStyle = look.good;
    pen.fillRect(x, top + height - high, wide, high);
    pen.fillStyle = look.hatch;
    pen.fillRect(x, top + height - high - hatched, wide, hatched);
  }
  const mark = height > 40 ? 5 : 3;
  for (const { x, width: wide, running } of found) {
    if (!running) continue;
    pen.fillStyle = look.busy;
    pen.fillRect(x, top, Math.max(2, wide), mark);
    pen.fillRect(x, top, 1.5, height);
  }
  for (const { x, width: wide, failed } of found) if (failed) notched(pen, look, x, top, Math.max(2, wide), height);
  pen.strokeStyle = look.line;
  pen.lineWidth = 1;
  pen.strokeRect(0.5, top + 0.5, width - 1, height - 1);
}

// Worst wins: a line from top to bottom with a notch above, wide enough to be seen.
function notched(pen, look, x, top, wide, height) {
  pen.fillStyle = look.bad;
  pen.fillRect(x, top, wide, height);
  const size = height > 40 ? 5 : 3;
  const middle = x + wide / 2;
  pen.beginPath();
  pen.moveTo(middle - size, top - 1);
  pen.lineTo(middle + size, top - 1);
  pen.lineTo(middle, top + size);
  pen.fill();
}

function block(pen, look, { block, x, y, width, height }) {
  const { done, skipped, failed, left } = mix(block);
  const gap = width > 4 ? 1 : 0;
  const wide = Math.max(width - gap, 0.5);
  pen.fillStyle = look.sunk;
  pen.fillRect(x, y, wide, height);
  pen.fillStyle = look.good;
  pen.fillRect(x, y, wide * done, height);
  pen.fillStyle = look.hatch;
  pen.fillRect(x + wide * done, y, wide * skipped, height);
  if (left === 1 && width > 6) outline(pen, { x, y, width: wide, height }, look.line, 1);
  if (block.state === "running") outline(pen, { x, y, width: wide, height }, look.busy, width > 8 ? 1.5 : 1);
  if (failed > 0) {
    const whole = done + skipped + left === 0;
    pen.fillStyle = look.bad;
    pen.fillRect(x, whole ? y : y + height - 4, wide, whole ? height : 4);
    pen.fillRect(x + wide * (done + skipped), y, wide * failed, height);
    if (width > 8) {
      pen.fillStyle = look.surface;
      pen.beginPath();
      pen.moveTo(x, y + height);
      pen.lineTo(x + 5, y + height);
      pen.lineTo(x, y + height - 5);
      pen.fill();
    }
  }
  if (width > LABEL && height >= 14) label(pen, look, block, { x, y, width: wide, height, done, skipped });
}

function label(pen, look, block, { x, y, width, height, done, skipped }) {
  const text = skipped === 1 ? "skipped" : done === 1 ? "done" : `${Math.floor((done + skipped) * 100)} %`;
  pen.font = `600 11px ${getComputedStyle(document.body).fontFamily}`;
  const wide = pen.measureText(text).width + 8;
  if (wide > width - 6) return;
  pen.fillStyle = look.surface;
  pen.globalAlpha = 0.88;
  pen.fillRect(x + 4, y + 2, wide, height - 4 - (block.failed > 0 ? 3 : 0));
  pen.globalAlpha = 1;
  pen.fillStyle = look.ink;
  pen.textBaseline = "middle";
  pen.fillText(text, x + 8, y + height / 2 + 0.5 - (block.failed > 0 ? 1.5 : 0));
}

function bracket(pen, look, { begin, end }, width, top, height) {
  if (begin <= 0 && end >= 1) return;
  const left = begin * width;
  const right = Math.max(end * width, left + 3);
  pen.globalAlpha = 0.62;
  pen.fillStyle = look.surface;
  pen.fillRect(0, top, left, height);
  pen.fillRect(right, top, width - right, height);
  pen.globalAlpha = 1;
  outline(pen, { x: left, y: top, width: right - left, height }, look.accent, 2);
}

function dragged(pen, look, { from, to }, where) {
  pen.fillStyle = look.accent;
  pen.globalAlpha = 0.2;
  pen.fillRect(Math.min(from, to), where.bands, Math.abs(to - from), where.axis - where.bands);
  pen.globalAlpha = 1;
}

function axis(pen, look, picture, width, top) {
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  pen.fillStyle = look.quiet;
  pen.textBaseline = "top";
  const first = written(picture.from);
  const last = picture.to === null ? "end" : written(picture.to);
  pen.fillText(fitting(pen, first, width / 2 - 8), 0, top + 5);
  const text = fitting(pen, last, width / 2 - 8);
  pen.fillText(text, width - pen.measureText(text).width, top + 5);
}

export function written(key) {
  return typeof key === "number" ? key.toLocaleString("en-US") : String(key);
}

function fitting(pen, text, most) {
  let short = text;
  while (short.length > 4 && pen.measureText(short).width > most) short = `${short.slice(0, -2)}…`;
  return short;
}

function outline(pen, { x, y, width, height }, colour, thick) {
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.strokeRect(x + thick / 2, y + thick / 2, Math.max(0, width - thick), Math.max(0, height - thick));
}

// The part of the whole strip inside a window, until the server has said it more finely.
function cut(picture, window) {
  const total = picture.whole.reduce((sum, [count]) => sum + count, 0);
  const found = [];
  let at = 0;
  for (const [count, ...look] of picture.whole) {
    const part = Math.min((at + count) / total, window.end) - Math.max(at / total, window.begin);
    if (part > 0) found.push([part, ...look]);
    at += count;
  }
  return found;
}
