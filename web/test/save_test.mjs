// Cells of saved tables: what a spreadsheet would take for a formula is text.
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
const source = fs.readFileSync(new URL("../src/save.ts", import.meta.url), "utf8");
const { code } = esbuild.transformSync(source, { loader: "ts", format: "esm" });
const { csvCell } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

for (const formula of ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "\r=1"]) {
  assert.match(csvCell(formula), /^"?'/, JSON.stringify(formula));
}
assert.equal(csvCell("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
assert.equal(csvCell(-2.5), "-2.5");
assert.equal(csvCell("plain - text"), "plain - text");
assert.equal(csvCell(null), "");
