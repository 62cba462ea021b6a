// What the page says of a run's pass rate while evaluations go on, were stopped, or had nothing to score.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

let esbuild;
try {
  esbuild = createRequire(new URL("../package.json", import.meta.url))("esbuild");
} catch {
  console.log("SKIPPED: the page's packages are not installed (web/build-page does)");
  process.exit(77);
}
const entry = fileURLToPath(new URL("../src/evaluations.ts", import.meta.url));
const { outputFiles } = esbuild.buildSync({ entryPoints: [entry], bundle: true, write: false, format: "esm" });
const { passRate, rateText } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

const of = (name, pass_rate, more = {}) => ({ name, pass_rate, ci95: 0.05, complete: true, tasks: 200, tasks_planned: 200, unscored: 0, ...more });
const run = (...evals) => ({ evals });

assert.equal(rateText(of("before", 0.5)), "50.0 % ± 5");
assert.equal(rateText(of("before", 0.5, { ci95: null })), "50.0 %");
assert.equal(rateText(of("before", null)), "not scored");
assert.equal(rateText(of("before", 0.5, { unscored: 3 })), "50.0 % ± 5, 3 not scored");
assert.equal(rateText(of("before", 0.5, { complete: false, tasks: 7 })), "50.0 % ± 5, only 7 of 200 tasks");

assert.deepEqual(passRate(run()), { value: "–", note: "not evaluated yet", better: false });
assert.deepEqual(passRate(run(of("before", 0.9, { complete: false, tasks: 7 }))), { value: "90.0 %", note: "before training, 7 of 200 tasks so far", better: false });
assert.deepEqual(passRate(run(of("before", 0.5), of("after", 0.75))), { value: "75.0 %", note: "after; before: 50.0 % ± 5", better: true });
// One that still goes on is not the run's pass rate: the tasks that end first are the easy ones.
const going = passRate(run(of("before", 0.5), of("during-step-4", 0.4), of("after", 1, { complete: false, tasks: 3 })));
assert.deepEqual(going, { value: "40.0 %", note: "during-step-4; before: 50.0 % ± 5", better: false });
// Nor is a part of one what a gain is measured from, and the greedy one is of another kind.
const partly = passRate(run(of("before", 0.1, { complete: false, tasks: 3 }), of("after", 0.5), of("after-greedy", 0.9)));
assert.deepEqual(partly, { value: "50.0 %", note: "after; before: 10.0 % ± 5, only 3 of 200 tasks", better: false });
console.log("ok");
