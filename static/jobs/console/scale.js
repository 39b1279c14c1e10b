// The scale of times in charts: logarithmic, from one power of ten to another.

export function decades(least, most) {
  if (!(least > 0) || !(most > 0)) return [0.001, 10];
  const low = Math.floor(Math.log10(least) + 1e-9);
  const high = Math.ceil(Math.log10(most) - 1e-9);
  return [10 ** low, 10 ** Math.max(high, low + 1)];
}

// Only powers of ten are written and have a line.
export function whole(u, splits) {
  return splits.map((value) => (Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6 ? value : null));
}
