// The same work in Node: one binary min-heap and one plain skip list over all priorities, each
// comparing scores at the moment of the operation. `benchmarks.schedulers` runs this beside ours.
// Usage: node schedulers.mjs '{"sizes": [1000], "repeat": 7}'; prints one JSON array.

import { randomUUID } from "node:crypto";

const NOW = 1_760_000_000;
const SPAN_SECONDS = 3600;
const MAX_HEIGHT = 16;

const score = (job, now) =>
  Math.max(0, job.priority - Math.floor(Math.max(0, now - job.dueAt) / 600) * 0.5);

function before(a, b, now) {
  const difference = score(a, now) - score(b, now);
  if (difference !== 0) return difference < 0;
  if (a.dueAt !== b.dueAt) return a.dueAt < b.dueAt;
  return a.id < b.id;
}

class Heap {
  items = [];
  ids = new Set();

  push(job, now) {
    if (this.ids.has(job.id)) return false;
    this.ids.add(job.id);
    const { items } = this;
    let at = items.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(job, items[parent], now)) break;
      items[at] = items[parent];
      at = parent;
    }
    items[at] = job;
    return true;
  }

  pop(now) {
    const { items } = this;
    if (items.length === 0) return null;
    const first = items[0];
    const moved = items.pop();
    const length = items.length;
    if (length > 0) {
      let at = 0;
      for (;;) {
        let child = 2 * at + 1;
        if (child >= length) break;
        if (child + 1 < length && before(items[child + 1], items[child], now)) child += 1;
        if (!before(items[child], moved, now)) break;
        items[at] = items[child];
        at = child;
      }
      items[at] = moved;
    }
    this.ids.delete(first.id);
    return first;
  }
}

class SkipList {
  head = { job: null, forward: new Array(MAX_HEIGHT).fill(null) };
  ids = new Set();

  push(job, now) {
    if (this.ids.has(job.id)) return false;
    this.ids.add(job.id);
    const path = new Array(MAX_HEIGHT);
    let node = this.head;
    for (let level = MAX_HEIGHT - 1; level >= 0; level -= 1) {
      while (node.forward[level] !== null && before(node.forward[level].job, job, now)) {
        node = node.forward[level];
      }
      path[level] = node;
    }
    let height = 1;
    while (height < MAX_HEIGHT && Math.random() < 0.5) height += 1;
    const added = { job, forward: new Array(height) };
    for (let level = 0; level < height; level += 1) {
      added.forward[level] = path[level].forward[level];
      path[level].forward[level] = added;
    }
    return true;
  }

  pop() {
    const node = this.head.forward[0];
    if (node === null) return null;
    for (let level = 0; level < node.forward.length; level += 1) {
      this.head.forward[level] = node.forward[level];
    }
    this.ids.delete(node.job.id);
    return node.job;
  }
}

function makeJobs(size, shape) {
  const jobs = Array.from({ length: size }, (_, i) => ({
    id: randomUUID(),
    priority: 1 + Math.floor(Math.random() * 3),
    dueAt: NOW - SPAN_SECONDS * (1 - i / size),
  }));
  if (shape === "shuffled") {
    for (let i = size - 1; i > 0; i -= 1) {
      const other = Math.floor(Math.random() * (i + 1));
      [jobs[i], jobs[other]] = [jobs[other], jobs[i]];
    }
  }
  return jobs;
}

function timed(work) {
  const start = performance.now();
  work();
  return performance.now() - start;
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const { sizes, repeat } = JSON.parse(process.argv[2]);
const results = [];
for (const size of sizes) {
  for (const shape of ["in turn", "shuffled"]) {
    const jobs = makeJobs(size, shape);
    for (const [structure, Structure] of [["node heap", Heap], ["node skip list", SkipList]]) {
      const pushes = [];
      const pops = [];
      for (let run = 0; run < (size > 100_000 ? Math.min(repeat, 3) : repeat); run += 1) {
        const held = new Structure();
        pushes.push(timed(() => { for (const job of jobs) held.push(job, NOW); }));
        pops.push(timed(() => { while (held.pop(NOW) !== null); }));
      }
      results.push({ size, shape, structure, operation: "push", median_ms: median(pushes) });
      results.push({ size, shape, structure, operation: "pop", median_ms: median(pops) });
    }
  }
}
console.log(JSON.stringify(results));
