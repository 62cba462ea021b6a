// A picture of a view of a real run, as README.md shows one.
//   node picture.mjs --program PROGRAM --page FOLDER --runs FOLDER --run NAME --out FILE.png [--view overview] [--height 1060]
import path from "node:path";

import { args, start, test } from "./browser.mjs";

test(async (browser) => {
  const { page } = browser;
  const child = start(args.get("--program"), ["view", args.get("--run"), "--folder", args.get("--runs"), "--port", "0"], { input: "ignore" });
  await browser.moveTo((await child.line(/http:\S+/))[0]);
  await browser.open(args.get("--run"), args.get("--view") ?? "overview");
  await page.evaluate(() => (document.querySelector("footer").hidden = true));
  const clip = { x: 0, y: 0, width: page.viewportSize().width, height: Number(args.get("--height") ?? 1060) };
  await page.screenshot({ path: path.resolve(args.get("--out")), fullPage: true, clip });
  child.kill();
});
