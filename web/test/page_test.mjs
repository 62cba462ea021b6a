// Drives the built page in Chromium against made-up runs, one of which goes on meanwhile.
//   node page_test.mjs --fixture PROGRAM --page FOLDER [--chromium PROGRAM]
// With TIDEMILL_SCREENSHOTS=FOLDER it leaves a picture of every view there. Exit status 77: something it needs is
// missing on this machine.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { args, folder, SIZES, start, test, until, VIEWS } from "./browser.mjs";

const fixture = args.get("--fixture");
const pageFolder = args.get("--page");
const runs = path.join(folder, "runs");
const shots = process.env.TIDEMILL_SCREENSHOTS;
const TOKEN = "a-token-for-the-test";

async function stop(child) {
  child.stdin.end();
  await child.ended;
}
async function serve(port, run, ...more) {
  const child = start(fixture, ["serve", runs, pageFolder, String(port), run, ...more]);
  const url = (await child.line(/http:\S+/))[0];
  return { child, url, port: new URL(url).port };
}

test(async (browser) => {
  const { page } = browser;
  const api = async (target) => (await fetch(browser.origin + target.slice(1))).json();
  if (shots) fs.mkdirSync(shots, { recursive: true });
  const picture = async (name, more = {}) => {
    if (!shots) return;
    await page.evaluate(() => (document.querySelector("footer").hidden = true));
    await page.screenshot({ path: path.join(shots, `${name}.png`), ...more });
    await page.evaluate(() => (document.querySelector("footer").hidden = false));
  };
  assert.equal(spawnSync(fixture, ["write", runs], { stdio: "inherit" }).status, 0);
  let server = await serve(0, "async");
  await browser.moveTo(server.url);

  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    for (const view of VIEWS) {
      await browser.step(`${view}, ${size}`, async () => {
        await browser.open("async", view, ...(view === "compare" ? ["sync"] : []));
        await browser.fits();
        await until(async () => assert.equal(await page.locator(".problem").count(), 0));
        if (view === "tools") await page.getByText("episodes so far").waitFor({ state: "detached" });
        await picture(`${view}-${size}`);
      });
    }
  }
  await page.setViewportSize(SIZES.wide);

  await browser.step("the verifiers show what was proved, what it costs and where execution disagrees", async () => {
    await browser.open("async", "verifiers");
    await until(async () => assert.match(await browser.stat("Decided"), /^9\d\.\d %$/));
    assert.match(await browser.stat("Cheaper than a box"), /^15\d ×$/);
    assert.equal(await browser.stat("Audit"), "trusted");
    const cells = await page.locator("table.plain").first().locator("tbody .num").allTextContents();
    assert.equal(cells.length, 4);
    assert.equal(cells[1], "0");
    assert.equal(cells[2], "1");
    const disagreement = page.locator("table.plain").nth(1).locator("tbody tr");
    assert.equal(await disagreement.count(), 1);
    assert.match(await disagreement.textContent(), /the reference returns 0.*12 of 12 hidden tests pass/);
    await browser.fits();
    await picture("verifiers-wide");
  });

  await browser.step("the overview shows what the run came to and where the bubble is", async () => {
    await browser.open("async", "overview");
    await until(async () => assert.equal(await browser.stat("Steps"), "40"));
    assert.match(await page.locator(".loops svg").getAttribute("aria-label"), /whole run.*Busiest|both busy/);
    await until(async () => assert.match(await browser.stat("Ran for"), /s$/));
    await page.locator("figure.chart canvas").nth(5).waitFor();
    const charts = await page.locator("figure.chart h2").allTextContents();
    for (const title of ["Pass rate, evaluated", "Reward by scorer", "Loss", "Learning rate", "Answer length"])
      assert.ok(charts.includes(title), `${title} among ${charts}`);
    // One figure over the steps of both evaluations, of which each kind is a line.
    const evaluated = page.locator("figure.chart", { hasText: "Pass rate, evaluated" }).locator('[role="img"]');
    assert.match(await evaluated.getAttribute("aria-label"), /sampled: \d/);
  });

  await browser.step("what an agent printed and changed stands in its transcript, as text", async () => {
    await browser.open("async", "episodes", "1", "0");
    const log = page.locator("details", { hasText: "What the agent printed" }).locator("pre");
    await log.waitFor();
    assert.equal(await log.textContent(), "Traceback: <b>no</b> module named x\n");
    assert.deepEqual(await page.locator(".diff .d-old").allTextContents(), ["-int f;\n"]);
    assert.deepEqual(await page.locator(".diff .d-new").allTextContents(), ["+int f(int a);\n"]);
    await browser.open("async", "episodes", "1", "1");
    await page.locator(".tokens").first().waitFor();
    assert.equal(await page.locator(".diff").count(), 0, "an episode without a program has neither");
  });

  await browser.step("a run of one process has no fleet", async () => {
    assert.equal(await page.locator("nav.tabs a", { hasText: "Fleet" }).count(), 0);
    assert.equal(await page.getByRole("region", { name: "Fleet" }).count(), 0);
    await browser.open("async", "fleet");
    await until(async () => assert.match(await page.locator("main").innerText(), /This run is one process/));
  });

  await browser.step("every chart of every view is saved as PNG and CSV", async () => {
    const check = (kind, bytes, name) => {
      if (kind === "PNG") assert.equal(bytes.subarray(1, 4).toString(), "PNG", name);
      else assert.ok(bytes.toString().split("\n").length > 2, `${name} has rows`);
    };
    await browser.open("async", "overview");
    // A browser that is short of time may drop a download: then the button is pressed again.
    const downloaded = async (button) => {
      for (let tries = 0; tries < 8; ++tries) {
        const [download] = await Promise.all([page.waitForEvent("download", { timeout: 20_000 }).catch(() => null), button.click()]);
        if (download) return download;
      }
      throw new Error("no click brought a download");
    };
    for (const kind of ["PNG", "CSV"]) {
      const download = await downloaded(page.locator(`button[aria-label$="as ${kind}"]`).first());
      check(kind, fs.readFileSync(await download.path()), download.suggestedFilename());
    }
    // The others go no further than to the link: Chromium drops downloads of which many come at once.
    const saved = async (button) => {
      await page.evaluate(() => {
        window.savedBlobs = [];
        if (window.keepsBlobs) return;
        window.keepsBlobs = true;
        const make = URL.createObjectURL.bind(URL);
        URL.createObjectURL = (blob) => {
          window.savedBlobs.push(blob);
          return make(blob);
        };
        const click = HTMLAnchorElement.prototype.click;
        HTMLAnchorElement.prototype.click = function () {
          if (!this.download) click.call(this);
        };
      });
      await button.click();
      await page.waitForFunction(() => window.savedBlobs.length > 0);
      return Buffer.from(await page.evaluate(async () => Array.from(new Uint8Array(await window.savedBlobs[0].arrayBuffer()))));
    };
    for (const view of ["overview", "metrics", "timeline", "tools", "faults", "compare"]) {
      await browser.open("async", view);
      for (const kind of ["PNG", "CSV"]) {
        const buttons = page.locator(`button[aria-label$="as ${kind}"]`);
        await until(async () => assert.ok((await buttons.count()) > 0, `${view} has a button for ${kind}`));
        // All of the first view; the others use the same parts.
        const most = view === "overview" ? Infinity : 2;
        for (let i = 0; i < Math.min(most, await buttons.count()); ++i) {
          check(kind, await saved(buttons.nth(i)), `${view}: chart ${i}`);
        }
      }
    }
  });

  await browser.step("episodes are filtered", async () => {
    await browser.open("async", "episodes");
    const expected = (await api("/api/runs/async/episodes?solved=false&sort=worst&limit=50")).total;
    await page.getByLabel("Result").selectOption("false");
    await page.getByLabel("Order").selectOption("worst");
    await page.getByText(`of ${expected.toLocaleString("en-US")}`).waitFor();
    await until(async () => {
      const rewards = (await page.locator('td[data-name="Reward"]').allInnerTexts()).map(Number);
      assert.deepEqual(rewards, [...rewards].sort((a, b) => a - b));
    });
    await page.getByLabel("Lag at least").fill("1");
    await page.getByLabel("Lag at least").press("Enter");
    const lagged = (await api("/api/runs/async/episodes?solved=false&lag_min=1")).total;
    assert.notEqual(lagged, expected);
    await page.getByText(`of ${lagged.toLocaleString("en-US")}`).waitFor();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("51 to 100").waitFor();
  });

  await browser.step("a transcript is read, token by token", async () => {
    await page.locator("tbody a").first().click();
    await browser.settled();
    await page.getByText("Turn 1", { exact: false }).first().waitFor();
    await until(async () => assert.match(await page.locator(".tokens").first().innerText(), /int f\(int a, int b\)/));
    await page.locator(".tokens .lp0").first().waitFor();
    await page.locator(".tokens .lp4, .tokens .lp5").first().waitFor();
    assert.match(await page.locator(".tokens span").first().getAttribute("title"), /version \d+, probability/);
    await picture("transcript-wide");
    await page.getByLabel("Policy version").check();
    await page.locator(".tokens .v0").first().waitFor();
    await page.getByLabel("Code").check();
    await page.locator(".k-word").first().waitFor();
    await page.getByText("tests", { exact: true }).first().waitFor(); // the verdict's parts
    await page.setViewportSize(SIZES.phone);
    await browser.fits();
    await picture("transcript-phone");
    await page.setViewportSize(SIZES.wide);
  });

  await browser.step("a group is read side by side", async () => {
    await page.locator(".crumbs a", { hasText: "group" }).click();
    await page.locator(".member .turn").nth(3).waitFor();
    await until(async () => assert.equal(await page.locator(".member").count(), 4));
    await picture("group-wide");
  });

  await browser.step("tasks are filtered and one is looked at over time", async () => {
    await browser.open("async", "tasks");
    await page.getByRole("button", { name: /unsolved/ }).click();
    const everyRow = (column, text) =>
      page.waitForFunction(
        ([name, part]) => {
          const cells = [...document.querySelectorAll(`td[data-name="${name}"]`)];
          return cells.length > 0 && cells.every((td) => td.textContent.includes(part));
        },
        [column, text],
      );
    await everyRow("State", "unsolved");
    await page.getByRole("button", { name: "all" }).click();
    await page.getByLabel("Name has").fill("gcd");
    await everyRow("Task", "gcd"); // until then the first row is another task's
    await page.locator("button.link").first().click();
    await page.locator("figure.chart h2", { hasText: "gcd" }).waitFor();
  });

  await browser.step("the timeline is zoomed by keyboard and shows two runs", async () => {
    await browser.open("async", "timeline");
    await page.getByLabel("Beside").selectOption("sync");
    await page.locator(".lanes canvas").nth(1).waitFor();
    await browser.settled();
    await picture("timeline-two-wide", { fullPage: true });
    await page.locator(".lanes canvas").first().focus();
    await page.keyboard.press("+");
    await page.getByText("Back to the whole window").click();
  });

  await browser.step("any metrics of any runs are drawn over steps, time and tokens", async () => {
    await browser.open("async", "metrics");
    const names = () => page.locator(".grid figure.chart h2").allTextContents();
    await until(async () => assert.deepEqual(await names(), ["reward"]));
    await page.getByLabel("Metric has").fill("resp");
    await page.getByLabel("response tokens").check();
    await page.getByLabel("sync", { exact: true }).check();
    await page.getByLabel("failing", { exact: true }).check();
    await until(async () => {
      assert.deepEqual(await names(), ["reward", "response tokens"]);
      const label = await page.locator('.chart [role="img"]').nth(1).getAttribute("aria-label");
      for (const run of ["async", "sync", "failing"]) assert.match(label, new RegExp(`${run}: \\d`));
    });
    for (const axis of ["time", "tokens"]) {
      await page.getByLabel("Axis").selectOption(axis);
      await page.waitForFunction((x) => location.hash.includes(`x=${x}`), axis);
    }
    await page.getByLabel("Smoothing").selectOption("10");
    await page.getByLabel("logarithmic").check();
    await browser.settled();
    await picture("metrics-three-wide");
    // What was chosen stands in the address.
    await page.reload();
    await until(async () => assert.deepEqual(await names(), ["reward", "response tokens"]));
    assert.equal(await page.getByLabel("logarithmic").isChecked(), true);
  });

  await browser.step("tags and notes are kept with the run and are text, whatever they hold", async () => {
    await browser.open("async", "overview");
    await page.getByRole("button", { name: "Add tags or a note" }).click();
    await page.getByLabel(/^Tags/).fill("sweep,best <i>x</i>");
    await page.getByLabel("Note").fill('<img src=x onerror="document.title=1">\nsecond line');
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.locator(".notes .said", { hasText: "second line" }).waitFor();
    assert.deepEqual((await api("/api/runs/async")).tags, ["<i>x</i>", "best", "sweep"]);
    await page.reload();
    assert.deepEqual(await until(async () => {
      const tags = await page.locator(".notes .tag").allTextContents();
      assert.equal(tags.length, 3);
      return tags;
    }), ["<i>x</i>", "best", "sweep"]);
    assert.equal(await page.locator(".notes img, .notes i").count(), 0);
    await picture("notes-wide");
    await page.getByRole("button", { name: "Edit", exact: true }).click();
    browser.forgiving = true; // refused on purpose
    await page.getByLabel(/^Tags/).fill("a".repeat(65));
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.locator(".problem", { hasText: "a tag must have 1 to 64 bytes" }).waitFor();
    browser.forgiving = false;
    await page.getByLabel(/^Tags/).fill("");
    await page.getByLabel("Note").fill("");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("button", { name: "Add tags or a note" }).waitFor();
  });

  await browser.step("transcripts are searched for a text", async () => {
    await browser.open("async", "episodes");
    await page.getByLabel("Task", { exact: true }).pressSequentially("cfunc/gcd-1");
    await page.getByLabel("Task", { exact: true }).press("Enter");
    await page.getByLabel(/^For/).selectOption("eval");
    const expected = (await api("/api/runs/async/episodes?task=cfunc%2Fgcd-1&purpose=eval")).total;
    assert.ok(expected > 0);
    await page.getByLabel("Text has").fill("INT F(INT A");
    await page.getByLabel("Text has").press("Enter");
    await page.getByText(`${expected} found in ${expected} episodes. The newest first.`).waitFor();
    await page.locator(".found mark").first().waitFor();
    assert.equal(await page.locator(".found mark").first().textContent(), "int f(int a");
    await picture("search-wide");
    await page.locator(".found a").first().click();
    await page.locator(".tokens").first().waitFor();
  });

  await browser.step("compare and config show the differences of two runs and more", async () => {
    await browser.open("async", "compare", "sync");
    await page.locator("code", { hasText: "learner.learning_rate" }).waitFor();
    await page.locator("figure.chart h2", { hasText: /^Steps$/ }).waitFor();
    await page.getByLabel("Axis").selectOption("step");
    await page.locator("figure.chart h2", { hasText: /^Steps$/ }).waitFor({ state: "detached" });
    await page.getByLabel("failing", { exact: true }).check();
    await until(async () => assert.equal(await page.locator("table.plain thead th.num").count(), 3));
    await until(async () => assert.match(await page.locator("main").innerText(), /generated tokens per second/));
    await browser.open("async", "config");
    await page.getByLabel("only changed keys").check();
    await until(async () => assert.equal(await page.locator("tbody tr").count(), 1));
  });

  await browser.step("the page is used by keyboard alone", async () => {
    await browser.open("async", "overview");
    await page.reload();
    await browser.settled();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.locator('nav a[href$="/faults"]').focus();
    await page.keyboard.press("Enter");
    await page.getByText("System failures").waitFor();
  });

  await browser.step("dark is dark", async () => {
    await browser.open("async", "overview");
    await page.getByLabel(/^Theme/).click();
    await page.getByLabel(/^Theme: light/).click();
    await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === "rgb(13, 22, 26)");
    for (const view of shots ? VIEWS : ["timeline"]) {
      await browser.open("async", view);
      await picture(`${view}-dark`);
    }
    await page.getByLabel(/^Theme/).click();
  });

  const live = start(fixture, ["live", runs, "live"]);
  await browser.step("a run that goes on is seen live, in every view", async () => {
    while (!(await api("/api/runs")).runs.some((run) => run.name === "live" && run.counts?.steps > 0)) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await browser.open("live", "overview");
    await page.locator(".live.on").waitFor();
    await page.locator(".badge", { hasText: "running" }).waitFor();
    const first = Number(await browser.stat("Steps"));
    await browser.statOver("Steps", first + 1);
    for (const view of VIEWS) await browser.open("live", view);
  });

  await browser.step("after a restart of the server the page comes back by itself", async () => {
    await browser.open("live", "overview");
    await page.locator(".live.on").waitFor();
    browser.forgiving = true;
    await stop(server.child);
    await page.locator(".live.off").waitFor();
    const before = Number(await browser.stat("Steps"));
    server = await serve(server.port, "async");
    await page.locator(".live.on").waitFor();
    await browser.statOver("Steps", before);
    await page.waitForTimeout(200);
    browser.forgiving = false;
  });

  await browser.step("the page's memory stays bounded while a run goes on", async () => {
    const round = async () => {
      for (const view of VIEWS) await browser.open("live", view);
      await browser.open("live", "episodes", "1", "0");
      await browser.open("live", "groups", "1");
      return browser.heap();
    };
    await round();
    const early = await round();
    await round();
    const late = await round();
    console.log(`    heap ${early.toFixed(1)} MB, 20 views later ${late.toFixed(1)} MB`);
    assert.ok(late < early + 3 && late < 40, `${early} MB grew to ${late} MB`);
  });
  await stop(live);

  await browser.step("with a token the page asks for it", async () => {
    browser.forgiving = true;
    const guarded = await serve(0, "async", TOKEN);
    await browser.moveTo(guarded.url);
    await browser.goto(browser.origin);
    await page.getByRole("heading", { name: "A token is required" }).waitFor();
    await page.getByLabel("Token").fill("a-wrong-token-altogether");
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("heading", { name: "A token is required" }).waitFor();
    await page.getByLabel("Token").fill(TOKEN);
    await page.getByRole("button", { name: "Open" }).click();
    await page.locator(".live.on").waitFor();
    await browser.goto("about:blank");
    await stop(guarded.child);
    browser.forgiving = false;
  });

  await browser.step("a report in one file needs no server", async () => {
    const report = path.join(folder, "report.html");
    assert.equal(spawnSync(fixture, ["export", runs, pageFolder, "async", report], { stdio: "inherit" }).status, 0);
    await browser.moveTo(pathToFileURL(report).href);
    for (const view of VIEWS.filter((name) => name !== "compare")) {
      await browser.goto(`${browser.origin}#/async/${view}`);
      await browser.settled();
      await until(async () => assert.equal(await page.locator(".problem").count(), 0, view));
    }
    await browser.goto(`${browser.origin}#/async/episodes`);
    await page.locator("tbody a").first().click();
    await page.locator(".tokens").first().waitFor();
  });

  await stop(server.child);
});
