// Evaluations of a run: which is shown as its pass rate, and in what words.
import type { Json } from "./api";
import { percent, words } from "./format";

export function evaluation(run: Json, name: string): Json | undefined {
  return run.evals.find((e: Json) => e.name === name);
}

// "75.4 % ± 5"; an evaluation in which nothing was scored has no rate, one task no interval, and one that still goes on,
// or was stopped, tells of the tasks that came first.
export function rateText(found: Json): string {
  const part = found.complete ? "" : `, only ${found.tasks} of ${found.tasks_planned} tasks`;
  if (found.pass_rate === null) return `not scored${part}`;
  const unscored = found.unscored > 0 ? `, ${found.unscored} not scored` : "";
  return percent(found.pass_rate, 1) + (found.ci95 === null ? "" : ` ± ${(100 * found.ci95).toFixed(0)}`) + unscored + part;
}

// The run's pass rate: of the newest whole evaluation of the same kind as "before" (not the greedy one, nor one with other
// turns), and beside it what it was before.
export function passRate(run: Json): { value: string; note: string; better: boolean } {
  const before = evaluation(run, "before");
  const newest = [...run.evals].reverse().find((e: Json) => e.complete && /^(after|during-step-\d+)$/.test(e.name));
  if (newest === undefined) {
    if (before === undefined) return { value: "–", note: "not evaluated yet", better: false };
    const note = before.complete ? "before training" : `before training, ${before.tasks} of ${before.tasks_planned} tasks so far`;
    return { value: percent(before.pass_rate, 1), note, better: false };
  }
  const better = before !== undefined && before.complete && before.pass_rate !== null && newest.pass_rate > before.pass_rate;
  return { value: percent(newest.pass_rate, 1), note: words(newest.name) + (before ? `; before: ${rateText(before)}` : ""), better };
}
