// Drives the page against a real training run: live, ended by a button on the page, and finished.
//   node live_test.mjs --program TIDEMILL --page FOLDER [--chromium PROGRAM]
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";

import { args, folder, makeModelAndTasks, skip, start, test, tinyRun, until, VIEWS } from "./browser.mjs";

const program = args.get("--program");
if (!fs.existsSync(program)) skip(`${program} was not built (it needs libtorch)`);
const runs = path.join(folder, "runs");
const tokens = path.join(folder, "tokens");
const TOKEN = "a-token-for-the-live-test";

function train() {
  const sets = {
    "run.folder": runs,
    "run.name": "live",
    "run.steps": 100_000,
    "run.minutes": 4,
    ...tinyRun,
    "tasks.eval": path.join(folder, "eval.jsonl"),
    "eval.samples": 2,
    "dashboard.port": 0,
    "dashboard.token_file": tokens,
  };
  const words = Object.entries(sets).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
  return start(program, ["--log-level", "warn", "train", ...words], { input: "ignore" });
}

test(async (browser) => {
  const { page } = browser;
  fs.writeFileSync(tokens, `# for this test\n${TOKEN}\n`);
  await makeModelAndTasks(program);
  const training = train();
  const address = (await training.line(/dashboard: (http:\S+)/))[1];
  await browser.moveTo(address);

  await browser.step("the page of a training run asks for its token", async () => {
    browser.forgiving = true;
    await browser.goto(address);
    await page.getByLabel("Token").fill(TOKEN);
    await page.getByRole("button", { name: "Open" }).click();
    await page.locator(".live.on").waitFor();
    browser.forgiving = false;
  });

  await browser.step("steps come in while it trains", async () => {
    await page.locator(".badge", { hasText: "running" }).waitFor();
    await browser.statOver("Steps", 2);
    const steps = Number((await browser.stat("Steps")).replace(/,/g, ""));
    await browser.statOver("Steps", steps);
    assert.match(await page.locator(".loops svg").getAttribute("aria-label"), /bubble/);
  });

  await browser.step("every view of the live run", async () => {
    for (const view of VIEWS) {
      await browser.open("live", view);
      await until(async () => assert.equal(await page.locator(".problem").count(), 0, view));
    }
  });

  await browser.step("the timeline has the run's own spans", async () => {
    await browser.open("live", "timeline");
    await page.waitForFunction(() => /\d+ slots: generating/.test(document.querySelector(".verdict")?.textContent ?? ""));
    const headers = { Authorization: `Bearer ${TOKEN}` };
    await until(async () => {
      const timeline = await (await fetch(`${address}api/runs/live/timeline`, { headers })).json();
      assert.ok(timeline.episodes.some((e) => e.turns.some(([from, to]) => to > from)), "generating");
      assert.ok(timeline.episodes.some((e) => e.scored_ms > 0), "scoring");
      assert.ok(timeline.steps.some((s) => s.metrics.seconds > 0), "training");
      assert.ok(timeline.work.spans.some((s) => s.doing === "publishing"), "publishing");
      for (const name of ["port_engine", "port_trainer", "port_boxes", "loop_rollout", "loop_learner"]) {
        assert.ok(timeline.work.busy.columns[name]?.some((share) => share > 0), name);
      }
    });
  });

  await browser.step("episodes are filtered and a transcript is read", async () => {
    await browser.open("live", "episodes");
    await page.getByRole("combobox", { name: "For", exact: true }).selectOption("train");
    await page.locator("tbody a").first().click();
    await page.locator(".tokens span").first().waitFor();
    await page.getByLabel("Policy version").check();
    await page.locator(".tokens .v0").first().waitFor();
    await page.locator(".crumbs a", { hasText: "group" }).click();
    await page.locator(".member .turn").nth(1).waitFor();
  });

  let port;
  await browser.step("the run is finished from the page", async () => {
    await browser.open("live", "overview");
    page.once("dialog", (dialog) => dialog.accept());
    browser.forgiving = true;
    await page.getByRole("button", { name: "Finish the run" }).click();
    assert.equal(await training.ended, 0, training.text);
    assert.match(training.text, /run live: done/);
    await page.locator(".live.off").waitFor();
    port = new URL(address).port;
  });

  await browser.step("a server over the finished run at the same port: the page comes back by itself", async () => {
    const view = start(program, ["view", "live", "--folder", runs, "--port", port, "--token-file", tokens], { input: "ignore" });
    await view.line(/http:\S+/);
    await page.locator(".live.on").waitFor();
    await page.locator(".badge", { hasText: "done" }).waitFor();
    browser.forgiving = false;
    for (const name of VIEWS) {
      await browser.open("live", name);
      await until(async () => assert.equal(await page.locator(".problem").count(), 0, name));
    }
    await browser.open("live", "overview");
    assert.match(await browser.stat("Pass rate, evaluated"), /%/);
    await browser.goto("about:blank");
    view.kill();
    assert.equal(await view.ended, 0);
  });
});
