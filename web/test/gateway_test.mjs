// The Gateway view of a real server: `tidemill serve --dashboard`.
//   node gateway_test.mjs --program TIDEMILL --page FOLDER [--chromium PROGRAM]
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";

import { args, folder, makeModelAndTasks, SIZES, skip, start, test, until } from "./browser.mjs";

const program = args.get("--program");
if (!fs.existsSync(program)) skip(`${program} was not built (it needs libtorch)`);
const pictures = process.env.TIDEMILL_SCREENSHOTS;

async function ask(url, path, body) {
  const answer = await fetch(`${url}${path}`, { method: "POST", body: JSON.stringify(body) });
  return [answer.status, await answer.text()];
}

test(async (browser) => {
  const { page } = browser;
  await makeModelAndTasks(program);
  const server = start(program, ["serve", path.join(folder, "model"), "--port", "0", "--dashboard", "0", "--folder", path.join(folder, "none")], { input: "ignore" });
  const shown = (await server.line(/dashboard: (http:\S+)/))[1];
  const url = (await server.line(/^(http:\S+)$/m))[1];
  await browser.moveTo(shown);

  await browser.step("a gateway without a run has a page of its own", async () => {
    await browser.goto(shown);
    await browser.settled();
    assert.equal(await browser.stat("Requests"), "0");
    assert.equal(await page.getByRole("heading", { name: "Tenants" }).count(), 1);
    assert.equal(await page.locator(".tabs").count(), 0);
  });

  await browser.step("requests, errors and tenants are counted", async () => {
    for (let i = 0; i < 6; ++i) {
      const [status, text] = await ask(url, "v1/completions", { model: "any", prompt: "int f(int a, int b) { return a + b; } ".repeat(2) + i, max_tokens: 12 });
      assert.equal(status, 200, text);
    }
    const [refused] = await ask(url, "v1/completions", { model: "any", prompt: "x", best_of: 3 });
    assert.equal(refused, 400);
    await until(async () => assert.equal(await browser.stat("Requests"), "7"));
    assert.equal(await browser.stat("Refused or failed"), "1");
    assert.match(await browser.stat("First token, median"), /ms|s/);
    const tenant = page.locator("tr", { hasText: "default" });
    assert.equal(await tenant.locator("td[data-name=Requests]").innerText(), "7");
    assert.equal(await page.locator("section", { hasText: "Errors by kind" }).locator("tbody tr").count(), 1);
    // All but the first found the same beginning in the cache.
    assert.match(await browser.stat("From the cache"), /[1-9]\d*\.\d %/);
  });

  await browser.step("it fits a phone", async () => {
    for (const [name, size] of Object.entries(SIZES)) {
      await page.setViewportSize(size);
      await browser.goto(shown);
      await browser.settled();
      await browser.fits();
      if (pictures) await page.screenshot({ path: path.join(pictures, `gateway-${name}.png`), fullPage: true });
    }
  });

  server.kill("SIGTERM");
  assert.equal(await server.ended, 0);
});
