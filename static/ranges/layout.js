// From what the server says of a run to rectangles. Pure: no canvas, no page, no clock.
//
// Places on the range are shares of it, from 0 to 1; a window is [begin, end). A strip is runs of
// buckets that look alike: [how many, state, done, skipped, failed, left], the parts in thousandths.

export const LAYOUT = { overview: 20, gap: 12, band: 18, space: 2, strip: 84, axis: 18, most: 10 };

/** Where each part of the drawing is, from top to bottom. */
export function plan(levels, { overview, gap, band, space, strip, axis } = LAYOUT) {
  const bands = overview + gap;
  const below = bands + levels * (band + space) - space + gap;
  return { overview: 0, bands, strip: below, axis: below + strip, height: below + strip + axis };
}

/** A strip as one column for each pixel. What is worst in a column wins a mark of its own. */
export function columns(strip, width) {
  const total = strip.reduce((sum, [count]) => sum + count, 0);
  const found = Array.from({ length: width }, () => ({ done: 0, skipped: 0, failed: 0, left: 0, running: false }));
  let at = 0;
  for (const [count, state, done, skipped, failed, left] of strip) {
    const first = Math.floor((at * width) / total);
    const last = Math.max(first + 1, Math.ceil(((at + count) * width) / total));
    for (let x = first; x < Math.min(last, width); x += 1) {
      const share = Math.min(x + 1, ((at + count) * width) / total) - Math.max(x, (at * width) / total);
      found[x].done += done * share;
      found[x].skipped += skipped * share;
      found[x].left += left * share;
      found[x].failed += failed * share;
      found[x].running ||= state === "running";
    }
    at += count;
  }
  return found;
}

/** Neighbouring columns that look alike, as one rectangle: {x, width, done, skipped, left, failed, running}. */
export function stretches(cols) {
  const found = [];
  for (const [x, column] of cols.entries()) {
    const total = column.done + column.skipped + column.failed + column.left || 1;
    const look = {
      done: round(column.done / total),
      skipped: round(column.skipped / total),
      left: round(column.left / total),
      failed: column.failed > 0,
      running: column.running,
    };
    const before = found.at(-1);
    const alike = before && Object.keys(look).every((name) => before[name] === look[name]);
    if (alike) before.width += 1;
    else found.push({ x, width: 1, ...look });
  }
  return found;
}

/** The blocks of the tree as rectangles of the window, a band for each depth, the coarsest on top. */
export function icicle(blocks, window, width, top, { band, space, most } = LAYOUT) {
  const seen = blocks.filter((block) => block.end > window.begin && block.begin < window.end);
  const first = Math.min(...seen.map((block) => block.path.length));
  const span = window.end - window.begin;
  return seen
    .filter((block) => block.path.length < first + most)
    .map((block) => {
      const left = Math.max(0, ((block.begin - window.begin) / span) * width);
      const right = Math.min(width, ((block.end - window.begin) / span) * width);
      const y = top + (block.path.length - first) * (band + space);
      return { block, x: left, y, width: right - left, height: band };
    })
    .filter((rect) => rect.width >= 0.5);
}

/** How many bands the blocks take. */
export function levels(blocks, { most } = LAYOUT) {
  if (!blocks.length) return 1;
  const depths = blocks.map((block) => block.path.length);
  return Math.min(most, Math.max(...depths) - Math.min(...depths) + 1);
}

/** What a block holds, as shares. */
export function mix(block) {
  const parts = ["processed", "skipped", "failed", "left"].map((name) => Number(block[name]));
  const total = parts.reduce((sum, part) => sum + part, 0) || 1;
  const [done, skipped, failed, left] = parts.map((part) => part / total);
  return { done, skipped, failed, left };
}

/** The rectangle at a point, or else the deepest one above or below it. */
export function pick(rects, x, y) {
  const there = rects.filter((rect) => x >= rect.x && x < rect.x + rect.width);
  const exact = there.find((rect) => y >= rect.y && y < rect.y + rect.height);
  return exact ?? there.sort((one, other) => other.y - one.y)[0] ?? null;
}

/** The window when the part between two places is wanted; never outside, never empty. */
export function windowOf(one, other, least = 2 ** -48) {
  const begin = Math.max(0, Math.min(one, other));
  const end = Math.min(1, Math.max(one, other));
  if (end - begin >= least) return { begin, end };
  const begins = Math.min(begin, 1 - least);
  return { begin: begins, end: begins + least };
}

/** Zoom by a factor (below 1: in) around a place, which stays where it is. */
export function zoom(window, factor, around = (window.begin + window.end) / 2) {
  const span = Math.min(1, (window.end - window.begin) * factor);
  const share = (around - window.begin) / (window.end - window.begin);
  return shifted({ begin: around - span * share, end: around + span * (1 - share) });
}

/** Move by a share of its own width. */
export function pan(window, share) {
  const by = (window.end - window.begin) * share;
  return shifted({ begin: window.begin + by, end: window.end + by });
}

/** The places of failures on the whole range: [begin, end) of each run of failing buckets. */
export function failing(strip) {
  const total = strip.reduce((sum, [count]) => sum + count, 0);
  const found = [];
  let at = 0;
  for (const [count, , , , failed] of strip) {
    if (failed > 0) {
      const before = found.at(-1);
      if (before && before.end === at / total) before.end = (at + count) / total;
      else found.push({ begin: at / total, end: (at + count) / total });
    }
    at += count;
  }
  return found;
}

function shifted({ begin, end }) {
  const span = Math.min(1, end - begin);
  const start = Math.min(Math.max(0, begin), 1 - span);
  return windowOf(start, start + span);
}

function round(share) {
  return share > 0 && share < 0.02 ? 0.02 : Math.round(share * 50) / 50;
}
