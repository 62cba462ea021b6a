// What stands between columns of metrics and lines in a chart: gaps, steps made again, several runs on one axis.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";

let esbuild;
try {
  esbuild = createRequire(new URL("../package.json", import.meta.url))("esbuild");
} catch {
  console.log("SKIPPED: the page's packages are not installed (web/build-page does)");
  process.exit(77);
}
const source = fs.readFileSync(new URL("../src/series.ts", import.meta.url), "utf8");
const { code } = esbuild.transformSync(source, { loader: "ts", format: "esm" });
const { curveOf, level, overlay, valuesAt, wholeMarks, withGaps } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

// A step that a resumed run made again counts as it was made last.
const again = { time_ms: [1, 2, 3, 4, 5], columns: { step: [1, 2, 3, 2, 3], loss: [10, 20, 30, 21, 31] } };
assert.deepEqual(level(again).columns, { step: [1, 2, 3], loss: [10, 21, 31] });
assert.deepEqual(level(again).time_ms, [1, 4, 5]);

// A time of which nothing was recorded has a null in it; an even row has none.
assert.deepEqual(withGaps([1, 2, 3, 60, 61], [[5, 5, 5, 5, 5]]), { x: [1, 2, 3, 31.5, 60, 61], all: [[5, 5, 5, null, 5, 5]] });
assert.deepEqual(withGaps([1, 2, 4, 5], [[1, 2, 3, 4]]).x, [1, 2, 4, 5]);

// Another run's points are passed over; a gap of one's own stays one.
const two = overlay([
  { name: "a", x: [0, 10, 20], values: [1, 2, 3] },
  { name: "b", x: [5, 10, 15], values: [7, null, 9] },
]);
assert.deepEqual(two.x, [0, 5, 10, 15, 20]);
assert.deepEqual(two.values, [
  [1, undefined, 2, undefined, 3],
  [undefined, 7, null, 9, undefined],
]);

// Between two rows a total is in between.
assert.deepEqual(valuesAt([0, 15, 20], [10, 20], [100, 200]), [null, 150, 200]);

// The three axes of one run.
const run = {
  step: { time_ms: [2000, 4000], columns: { step: [1, 2], loss: [0.5, 0.25] } },
  tick: { time_ms: [1000, 2000, 3000, 4000], columns: { steps: [0, 1, 1, 2], trained_tokens: [0, 100, 100, 300], stale: [0, 1, 2, 3] } },
};
const loss = (rows) => rows.columns.loss;
assert.deepEqual(curveOf("a", run, "step", "step", loss), { name: "a", x: [1, 2], values: [0.5, 0.25] });
assert.deepEqual(curveOf("a", run, "step", "time", loss).x, [1, 3]);
assert.deepEqual(curveOf("a", run, "step", "tokens", loss).x, [100, 300]);
assert.deepEqual(curveOf("a", run, "tick", "step", (rows) => rows.columns.stale), { name: "a", x: [0, 1, 2], values: [0, 2, 3] });

// A killed run had trained step 2, which does not count: its tokens are taken back, and the step made again has its own.
const resumed = {
  step: { time_ms: [2000, 6000], columns: { step: [1, 2], loss: [0.5, 0.25] } },
  tick: { time_ms: [2000, 3000, 5000, 6000], columns: { steps: [1, 2, 1, 2], trained_tokens: [100, 180, 100, 170] } },
};
assert.deepEqual(curveOf("a", resumed, "step", "tokens", loss).x, [100, 170]);

// Steps are counted in whole numbers, at every zoom.
assert.ok(wholeMarks([1, 2, null, 40]).every(Number.isInteger));
assert.equal(wholeMarks([1, 2.5]), undefined);
console.log("ok");
