// What plots need from the columns of metrics.jsonl.
import type { Json } from "./api";

export type Values = (number | null)[];

export function column(series: Json, name: string): Values {
  return series?.columns?.[name] ?? (series?.time_ms ?? []).map(() => null);
}

export function hasColumn(series: Json, name: string): boolean {
  return Boolean(series?.columns?.[name]);
}

// The growth a second of a total. A resumed run starts its totals anew: no rate there.
export function rate(times: number[], totals: Values): Values {
  return totals.map((value, i) => {
    if (i === 0 || value === null || totals[i - 1] === null) return null;
    const seconds = (times[i] - times[i - 1]) / 1000;
    const grown = value - totals[i - 1]!;
    return seconds > 0 && grown >= 0 ? grown / seconds : null;
  });
}

// Shares are told since the begin of a run; what happened between two rows is the difference.
export function shareBetween(seconds: Values, shares: Values): Values {
  return shares.map((share, i) => {
    if (share === null || seconds[i] === null) return null;
    if (i === 0 || shares[i - 1] === null || seconds[i - 1] === null || seconds[i]! <= seconds[i - 1]!) return share;
    const busy = share * seconds[i]! - shares[i - 1]! * seconds[i - 1]!;
    return Math.min(1, Math.max(0, busy / (seconds[i]! - seconds[i - 1]!)));
  });
}

// A mean told since the begin of a run, and of how many: what it was between two rows.
export function meanBetween(counts: Values, means: Values): Values {
  return means.map((mean, i) => {
    const count = counts[i];
    if (mean === null || count === null) return null;
    const before = i > 0 ? counts[i - 1] : null;
    if (before === null || before > count || means[i - 1] === null) return mean;
    return count === before ? null : Math.max(0, (mean * count - means[i - 1]! * before) / (count - before));
  });
}

export function smooth(values: Values, width: number): Values {
  return values.map((value, i) => {
    if (value === null) return null;
    let sum = 0;
    let count = 0;
    for (let k = Math.max(0, i - width + 1); k <= i; ++k) {
      if (values[k] === null) continue;
      sum += values[k]!;
      ++count;
    }
    return count ? sum / count : null;
  });
}

// The histogram of lags over the last rows: "lag_hist_0", "lag_hist_1", .. "lag_hist_9+".
export function lagHistogram(steps: Json, rows: number): { labels: string[]; counts: number[] } {
  const found: { order: number; label: string; count: number }[] = [];
  for (const [name, values] of Object.entries<Values>(steps?.columns ?? {})) {
    const match = /^lag_hist_(\d+)(\+?)$/.exec(name);
    if (!match) continue;
    const count = values.slice(-rows).reduce<number>((sum, value) => sum + (value ?? 0), 0);
    found.push({ order: Number(match[1]), label: match[1] + match[2], count });
  }
  found.sort((a, b) => a.order - b.order);
  const total = found.reduce((sum, entry) => sum + entry.count, 0) || 1;
  return { labels: found.map((entry) => entry.label), counts: found.map((entry) => entry.count / total) };
}

// The rows of the line that lives: a resumed run makes steps again, and what it made before is void.
export function level(steps: Json): Json {
  const numbers = column(steps, "step");
  const kept: number[] = [];
  let least = Infinity;
  for (let i = numbers.length - 1; i >= 0; --i) {
    const step = numbers[i];
    if (step === null || step >= least) continue;
    least = step;
    kept.push(i);
  }
  kept.reverse();
  if (kept.length === numbers.length) return steps;
  const pick = (values: unknown[]) => kept.map((i) => values[i]);
  return {
    ...steps,
    time_ms: pick(steps.time_ms),
    columns: Object.fromEntries(Object.entries<Values>(steps.columns).map(([name, values]) => [name, pick(values)])),
  };
}

// What `values` were at `at`, between the two rows around it. Both times grow.
export function valuesAt(at: number[], times: number[], values: Values): Values {
  let i = 0;
  return at.map((time) => {
    while (i + 1 < times.length && times[i + 1] <= time) ++i;
    const here = values[i] ?? null;
    const next = values[i + 1] ?? null;
    if (here === null || times[i] > time) return null;
    if (next === null || times[i + 1] <= times[i]) return here;
    return here + ((next - here) * (time - times[i])) / (times[i + 1] - times[i]);
  });
}

// A distance this many times the usual one is a gap: nothing was recorded there.
const GAP = 4;

// With a row of nulls inside every gap, so that no line is drawn across it. `x` grows.
export function withGaps(x: number[], all: Values[]): { x: number[]; all: Values[] } {
  const distances = x.slice(1).map((at, i) => at - x[i]);
  const usual = [...distances].sort((a, b) => a - b)[Math.floor(distances.length / 2)] ?? 0;
  const isGap = distances.map((distance) => distances.length > 2 && distance > GAP * usual);
  if (!isGap.includes(true)) return { x, all };
  const spread = <T>(values: T[], inside: (i: number) => T) => values.flatMap((value, i) => (isGap[i] ? [value, inside(i)] : [value]));
  return { x: spread(x, (i) => (x[i] + x[i + 1]) / 2), all: all.map((values) => spread(values, () => null)) };
}

// The distances between marks of an axis that counts things; undefined: some value is no whole number.
export function wholeMarks(values: (number | null | undefined)[]): number[] | undefined {
  if (!values.every((value) => value === null || value === undefined || Number.isInteger(value))) return undefined;
  return Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();
}

export interface Curve {
  name: string;
  x: number[]; // grows
  values: Values;
}

// Curves with points of their own on one axis. Where another curve has a point and this one has none it is undefined,
// which a line passes over; null is a gap.
export function overlay(curves: Curve[]): { x: number[]; values: (number | null | undefined)[][] } {
  const spread = curves.map((curve) => {
    const { x, all } = withGaps(curve.x, [curve.values]);
    return new Map(x.map((at, i) => [at, all[0][i]]));
  });
  const x = [...new Set(spread.flatMap((points) => [...points.keys()]))].sort((a, b) => a - b);
  return { x, values: spread.map((points) => x.map((at) => points.get(at))) };
}

export type Axis = "step" | "time" | "tokens";

// A column of a run's series over steps, seconds since its begin, or tokens trained on.
export function curveOf(name: string, series: Json, kind: "step" | "tick", axis: Axis, values: (rows: Json) => Values): Curve {
  const rows = kind === "step" ? level(series.step) : series.tick;
  const ticks = series.tick;
  const begin = Math.min(ticks.time_ms[0] ?? Infinity, rows.time_ms[0] ?? Infinity);
  const tokens = column(ticks, "trained_tokens"); // a resume takes back those of steps that do not count
  let x: Values;
  if (axis === "time") x = rows.time_ms.map((at: number) => (at - begin) / 1000);
  else if (kind === "step") x = axis === "step" ? column(rows, "step") : valuesAt(rows.time_ms, ticks.time_ms, tokens);
  else x = axis === "step" ? column(rows, "steps") : tokens;
  const found = values(rows);
  const points = new Map<number, number | null>(); // the last of those at one place
  x.forEach((at, i) => at !== null && points.set(at, found[i]));
  const sorted = [...points].sort(([a], [b]) => a - b);
  return { name, x: sorted.map(([at]) => at), values: sorted.map(([, value]) => value) };
}
