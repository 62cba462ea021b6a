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
