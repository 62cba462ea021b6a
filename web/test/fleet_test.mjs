// Drives the page against a real fleet: Redis, a learner and five workers, some of which are killed.
//   node fleet_test.mjs --program TIDEMILL --page FOLDER [--chromium PROGRAM]
// TIDEMILL_SCREENSHOTS=FOLDER takes pictures.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";

import { args, folder, makeModelAndTasks, SIZES, skip, start, test, tinyRun, until } from "./browser.mjs";

const program = args.get("--program");
if (!fs.existsSync(program)) skip(`${program} was not built (it needs libtorch)`);
if (spawnSync("redis-server", ["--version"]).status !== 0) skip("there is no redis-server (Debian package redis-server)");
const pictures = process.env.TIDEMILL_SCREENSHOTS;
const runs = path.join(folder, "runs");
let bus = "";

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function startRedis() {
  for (let attempt = 0; ; ++attempt) {
    const port = await freePort();
    const redis = start("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"], { input: "ignore" });
    const ready = await redis.line(/Ready to accept connections/).then(() => true, () => false);
    if (ready) return `redis://127.0.0.1:${port}/0`;
    assert.ok(attempt < 5, redis.text); // somebody else took the port meanwhile
  }
}

function worker(role, ...more) {
  return start(program, ["--log-level", "warn", "worker", role, "--bus", bus, "--run", "many", ...more], { input: "ignore" });
}

function learner() {
  const sets = {
    "run.folder": runs,
    "run.steps": 1_000_000,
    "run.minutes": 5,
    ...tinyRun,
    "threads.engine": 1,
    "threads.trainer": 1,
    "bus.lease": "3s",
    "dashboard.port": 0,
  };
  return worker("learner", ...Object.entries(sets).flatMap(([key, value]) => ["--set", `${key}=${value}`]));
}

// "tools-host-4711" -> "here", as `tidemill status` tells.
function statusOf() {
  const told = JSON.parse(execFileSync(program, ["status", "--bus", bus, "--run", "many", "--json"]));
  return Object.fromEntries(told.workers.map((w) => [w.worker, w.state]));
}

test(async (browser) => {
  const { page } = browser;
  bus = await startRedis();
  await makeModelAndTasks(program);
  const chief = learner();
  const address = (await chief.line(/dashboard: (http:\S+)/))[1];
  const fleet = { rollout: [worker("rollout"), worker("rollout")], tools: [worker("tools"), worker("tools")], reward: [worker("reward")] };
  const all = [chief, ...Object.values(fleet).flat()];
  const row = (child) => page.locator("table.workers > tbody > tr:not(.more)", { hasText: new RegExp(`-${child.pid}(?!\\d)`) });
  const states = async () =>
    Object.fromEntries(
      await page.locator("table.workers > tbody > tr:not(.more)").evaluateAll((rows) =>
        rows.map((r) => [r.querySelector('[data-name="Process"]').textContent.trim(), r.querySelector('[data-name="State"] .badge').textContent]),
      ),
    );
  const picture = async (name) => {
    if (!pictures) return;
    await browser.settled();
    await page.evaluate(() => (document.querySelector("footer").hidden = true));
    await page.screenshot({ path: path.join(pictures, `${name}.png`) });
    await page.evaluate(() => (document.querySelector("footer").hidden = false));
  };
  await browser.moveTo(address);

  await browser.step("every process of the fleet is on the page", async () => {
    await browser.goto(address);
    await page.locator("nav.tabs a", { hasText: "Fleet" }).click();
    for (const child of all) await row(child).locator(".badge", { hasText: "here" }).waitFor();
    await until(async () => assert.deepEqual(await states(), statusOf()));
    assert.equal(await row(fleet.tools[0]).locator('[data-name="Role"]').innerText(), "tools");
    await until(async () => assert.match(await page.locator(".verdict").innerText(), /6 processes, none lost/));
  });

  await browser.step("what each does comes in while it works", async () => {
    const number = async (child, name) => Number((await row(child).locator(`[data-name="${name}"]`).innerText()).replace(/[^\d.]/g, ""));
    await until(async () => {
      for (const child of fleet.rollout) assert.ok((await number(child, "Rate")) > 0, "tokens a second");
      for (const child of fleet.tools) assert.ok((await number(child, "Rate")) > 0, "calls a second");
      for (const child of [chief, ...fleet.rollout]) assert.ok((await number(child, "Weights")) > 0, "a version");
      assert.ok((await number(chief, "Busy")) > 0, "the learner trains");
    }, 60_000);
    await row(fleet.rollout[0]).getByRole("button").click();
    await page.locator(".numbers dt", { hasText: /^generated tokens$/ }).waitFor();
    await until(async () => assert.match(await page.locator(".numbers").innerText(), new RegExp(String(fleet.rollout[0].pid))));
    await row(fleet.rollout[0]).getByRole("button").click();
  });

  await browser.step("the overview shows the work of all of them", async () => {
    await browser.open("many", "overview");
    await browser.statOver("Tokens per second", 0);
    const strip = page.getByRole("region", { name: "Fleet" });
    await until(async () => assert.match(await strip.innerText(), /learner 1[^]*rollout 2[^]*tools 2[^]*reward 1/));
    await until(async () => {
      const tick = (await (await fetch(`${address}api/runs/many`)).json()).tick;
      assert.equal(tick.workers_tools, 2);
      assert.equal(tick.workers_lost, 0);
      assert.ok(tick.generated_tokens > 0 && tick.gradings > 0, "done by others");
      for (const name of ["busy_port_engine", "busy_port_boxes", "busy_loop_reward"]) assert.ok(tick[name] > 0 && tick[name] <= 1, name);
    });
    await until(async () => assert.match(await page.locator(".loops svg").textContent(), /rollout ×2/));
  });

  await browser.step("a worker that is killed is marked as lost, and the others go on", async () => {
    await browser.open("many", "fleet");
    process.kill(fleet.tools[0].pid, "SIGKILL");
    await row(fleet.tools[0]).locator(".badge", { hasText: "lost" }).waitFor();
    await until(async () => assert.deepEqual(await states(), statusOf()));
    await until(async () => assert.match(await page.locator(".verdict").innerText(), /1 of 6 processes is lost/));
    await page.locator("nav.tabs .badge", { hasText: "1 lost" }).waitFor();
    await page.getByRole("button", { name: /^lost 1/ }).click();
    await until(async () => assert.deepEqual(Object.values(await states()), ["lost"]));
    await page.getByRole("button", { name: /^all/ }).click();
    await picture("fleet-wide");
    if (pictures) {
      await page.emulateMedia({ colorScheme: "dark" });
      await picture("fleet-dark");
      await page.emulateMedia({ colorScheme: "light" });
    }
    await page.setViewportSize(SIZES.phone);
    await browser.settled();
    await browser.fits();
    await picture("fleet-phone");
    await page.setViewportSize(SIZES.wide);
  });

  await browser.step("one that leaves in order is not lost", async () => {
    const leaves = fleet.rollout[0];
    process.kill(leaves.pid, "SIGTERM");
    assert.equal(await leaves.ended, 0, leaves.text);
    await until(async () => assert.equal(await row(leaves).count(), 0));
    await until(async () => assert.match(await page.locator(".verdict").innerText(), /1 of 5 processes is lost/));
  });

  await browser.step("a server of its own sees the learner go", async () => {
    const view = start(program, ["view", "many", "--folder", runs, "--port", "0", "--bus", bus], { input: "ignore" });
    await browser.moveTo((await view.line(/http:\S+/))[0]);
    await browser.open("many", "fleet");
    await row(chief).locator(".badge", { hasText: "here" }).waitFor();
    process.kill(chief.pid, "SIGKILL");
    await row(chief).locator(".badge", { hasText: "lost" }).waitFor();
    await browser.goto("about:blank");
    view.kill();
    await view.ended;
  });

  await browser.step("without the bus the page says how to see more", async () => {
    const view = start(program, ["view", "many", "--folder", runs, "--port", "0"], { input: "ignore" });
    await browser.moveTo((await view.line(/http:\S+/))[0]);
    await browser.open("many", "fleet");
    await until(async () => assert.match(await page.locator("main").innerText(), /tidemill view --bus/));
    await page.locator("figure.chart", { hasText: "Workers over time" }).waitFor();
    await browser.goto("about:blank");
    view.kill();
    await view.ended;
  });
});
