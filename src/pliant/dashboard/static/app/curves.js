// Curves as the server sends them ({time, step, mean, min, max}, columns), made ready to be drawn.

export function isEmpty(curve) {
  return !curve?.time?.length;
}

// One continuous curve over steps: what was repeated after a roll-back replaces what was there.
export function byStep(curve) {
  const kept = [];
  curve.step.forEach((step, index) => {
    while (kept.length && curve.step[kept[kept.length - 1]] >= step) kept.pop();
    kept.push(index);
  });
  return pick(curve, kept);
}

function pick(curve, indices) {
  return Object.fromEntries(["time", "step", "mean", "min", "max"].map((name) => [name, indices.map((index) => curve[name][index])]));
}

// With a gap where nothing was measured for long: the job stood still, or had no master.
export function withGaps(curve) {
  const { time } = curve;
  const distances = time.slice(1).map((at, index) => at - time[index]).sort((a, b) => a - b);
  const limit = Math.max(10, 6 * (distances[distances.length >> 1] ?? 0));
  const result = { time: [], step: [], mean: [], min: [], max: [] };
  time.forEach((at, index) => {
    if (index && at - time[index - 1] > limit) {
      result.time.push((at + time[index - 1]) / 2);
      result.step.push(curve.step[index]);
      for (const name of ["mean", "min", "max"]) result[name].push(null);
    }
    for (const name of Object.keys(result)) result[name].push(curve[name][index]);
  });
  return result;
}

// From a time on.
export function since(curve, start) {
  const first = curve.time.findIndex((time) => time >= start);
  return first <= 0 ? (first < 0 ? pick(curve, []) : curve) : pick(curve, curve.time.map((_, index) => index).slice(first));
}
