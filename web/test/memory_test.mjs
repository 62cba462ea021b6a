// The view of memory in Chromium, against a made-up run.
//   node memory_test.mjs --fixture PROGRAM --page FOLDER [--chromium PROGRAM]
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

import { args, folder, SIZES, start, test, until } from "./browser.mjs";

const fixture = args.get("--fixture");
const runs = path.join(folder, "runs");
const shots = process.env.TIDEMILL_SCREENSHOTS;

test(async (browser) => {
  const { page } = browser;
  const api = async (target) => (await fetch(browser.origin + target.slice(1))).json();
  assert.equal(spawnSync(fixture, ["memory", runs, "remembers"], { stdio: "inherit" }).status, 0);
  const server = start(fixture, ["serve", runs, args.get("--page"), "0", "remembers"]);
  await browser.moveTo((await server.line(/http:\S+/))[0]);
  const worths = async () => (await page.locator('section:has(h2:text-is("Cases")) td[data-name="Worth"]').allInnerTexts()).map((text) => Number(text.split(" ")[0].replace("−", "-")));

  await browser.step("the view shows the bank, its growth and what it forgot", async () => {
    await browser.open("remembers", "overview");
    await page.locator("nav.tabs a", { hasText: "Memory" }).click();
    await browser.settled();
    let memory = await api("/api/runs/remembers/memory");
    while (!memory.complete) memory = await api("/api/runs/remembers/memory"); // the bank is read in parts
    await until(async () => assert.equal(await browser.stat("Forgotten"), String(memory.forgotten)));
    await until(async () => assert.equal(await browser.stat("Cases"), String(memory.cases)));
    await page.locator("figure.chart canvas").waitFor();
    await until(async () => assert.equal(await page.getByRole("region", { name: "Forgotten cases" }).locator("tbody tr").count(), memory.gone.length));
    for (const size of Object.values(SIZES)) {
      await page.setViewportSize(size);
      await browser.settled();
      await browser.fits();
    }
    await page.setViewportSize(SIZES.wide);
    if (shots) {
      fs.mkdirSync(shots, { recursive: true });
      await page.screenshot({ path: path.join(shots, "memory-wide.png") });
    }
  });

  await browser.step("cases are ordered by what they were worth, with intervals, and by scope", async () => {
    await page.getByRole("button", { name: "helped most" }).click();
    await until(async () => {
      const shown = await worths();
      assert.ok(shown.length > 10 && shown[0] > 0);
      assert.deepEqual(shown, [...shown].sort((a, b) => b - a));
    });
    assert.match(await page.locator('td[data-name="Worth"]').first().innerText(), /^\+\d+ \([+−]\d+ to \+\d+\)$/);
    await page.getByRole("button", { name: "misled most" }).click();
    await until(async () => {
      const shown = await worths();
      assert.ok(shown.at(-1) > 0);
      assert.deepEqual(shown, [...shown].sort((a, b) => a - b));
    });
    await page.getByLabel("Scope").selectOption("beta");
    await page.waitForFunction(() => [...document.querySelectorAll('[aria-label="Cases"] td[data-name="Scope"]')].every((cell) => cell.textContent === "beta"));
  });

  await browser.step("a case leads to its episode, which says what it was shown", async () => {
    await page.getByRole("region", { name: "Cases", exact: true }).locator("tbody a").first().click();
    await page.getByText("What the tools said").waitFor();
    await page.locator("main a", { hasText: /^group/ }).click();
    await browser.settled();
    await page.locator(".member").first().waitFor();
    const shown = page.locator(".member", { has: page.getByText("Shown cases") }).first();
    await shown.locator("a", { hasText: /^#\d+$/ }).first().click();
    await page.getByRole("heading", { name: /^Case \d+$/ }).waitFor();
  });

  server.stdin.end();
  await server.ended;
});
