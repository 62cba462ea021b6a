// Drives the built page in Chromium against made-up runs, one of which goes on meanwhile.
//   node page_test.mjs --fixture PROGRAM --page FOLDER [--screenshots FOLDER] [--chromium PROGRAM]
// Exit status 77: something it needs is missing on this machine.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

const args = new Map();
for (let i = 2; i < process.argv.length; i += 2) args.set(process.argv[i], process.argv[i + 1]);
const fixture = args.get("--fixture");
const pageFolder = args.get("--page");
const chromiumPath = args.get("--chromium") ?? "/usr/bin/chromium";

function skip(why) {
  console.log(`SKIPPED: ${why}`);
  process.exit(77);
}
if (!fs.existsSync(chromiumPath)) skip(`${chromiumPath} is not there (Debian package chromium)`);
if (!fs.existsSync(path.join(pageFolder, "index.html"))) skip(`the page was not built at ${pageFolder} (npm could not fetch its packages)`);
const { chromium } = await import("playwright-core").catch(() => skip("playwright-core is not installed (npm ci in web/)"));

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tidemill-web-"));
const runs = path.join(folder, "runs");
const shots = args.get("--screenshots") ?? path.join(folder, "screenshots");
const SIZES = { wide: { width: 1280, height: 860 }, phone: { width: 390, height: 844 } };
const VIEWS = ["overview", "timeline", "episodes", "tools", "tasks", "faults", "compare", "config"];
const TOKEN = "a-token-for-the-test";

const children = new Set();
function start(...words) {
  const child = spawn(fixture, words, { stdio: ["pipe", "pipe", "inherit"] });
  children.add(child);
  child.ended = new Promise((resolve) => child.on("exit", resolve));
  return child;
}
async function stop(child) {
  child.stdin.end();
  await child.ended;
  children.delete(child);
}
async function serve(port, run, ...more) {
  const child = start("serve", runs, pageFolder, String(port), run, ...more);
  const line = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (bytes) => {
      text += bytes;
      if (text.includes("\n")) resolve(text.trim());
    });
    child.on("exit", () => reject(new Error("the server did not start")));
  });
  return { child, url: line, port: new URL(line).port };
}

let context;
const problems = [];
let forgiving = false; // while the server is away, failed requests are expected
let origin = "";
function watch(page) {
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    if (forgiving && /Failed to load resource|ERR_/.test(message.text())) return;
    problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`exception: ${error.stack ?? error}`));
  page.on("request", (request) => {
    const url = request.url();
    if (/^(data|blob):/.test(url)) return;
    if (!url.startsWith(origin)) problems.push(`request to elsewhere: ${url}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400 && !forgiving) problems.push(`${response.status()}: ${response.url()}`);
  });
}

async function step(name, run) {
  const begin = Date.now();
  await run();
  assert.deepEqual(problems, [], name);
  console.log(`ok  ${name}  (${Date.now() - begin} ms)`);
}

async function open(page, run, view, ...parts) {
  await page.goto(`${origin}#/${[run, view, ...parts].join("/")}`);
  await settled(page);
}
async function settled(page) {
  await page.waitForSelector("main");
  await page.waitForFunction(() => !document.querySelector("main")?.textContent.includes("Loading…"));
  // Charts appear once they know their width.
  await page.waitForFunction(() => [...document.querySelectorAll("figure.chart")].every((chart) => chart.querySelector("canvas, .empty")));
  await page.waitForTimeout(150);
}
async function fits(page) {
  const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(content <= screen, `the page is ${content} wide on a screen of ${screen}`);
}
async function api(target) {
  return (await fetch(origin + target.slice(1))).json();
}
const stat = (page, name) => page.locator(".stat", { has: page.locator(".name", { hasText: new RegExp(`^${name}$`) }) }).locator(".value").innerText();

async function main() {
  fs.mkdirSync(shots, { recursive: true });
  assert.equal(spawnSync(fixture, ["write", runs], { stdio: "inherit" }).status, 0);
  let server = await serve(0, "async");
  origin = server.url;
  context = await chromium.launchPersistentContext(path.join(folder, "profile"), {
    executablePath: chromiumPath,
    headless: true,
    chromiumSandbox: false,
    viewport: SIZES.wide,
    colorScheme: "light",
    timezoneId: "UTC",
    acceptDownloads: true,
    args: ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const page = context.pages()[0] ?? (await context.newPage());
  page.setDefaultTimeout(60_000);
  watch(page);

  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    for (const view of VIEWS) {
      await step(`${view}, ${size}`, async () => {
        await open(page, "async", view, ...(view === "compare" ? ["sync"] : []));
        await fits(page);
        assert.equal(await page.locator(".problem").count(), 0);
        await page.screenshot({ path: path.join(shots, `${view}-${size}.png`) });
      });
    }
  }
  await page.setViewportSize(SIZES.wide);

  await step("the overview shows what the run came to and where the bubble is", async () => {
    await open(page, "async", "overview");
    assert.equal(await stat(page, "Steps"), "40");
    assert.match(await page.locator(".loops svg").getAttribute("aria-label"), /bubble|busy/);
    assert.ok((await page.locator("figure.chart canvas").count()) >= 6);
  });

  await step("every chart of every view is saved as PNG and CSV", async () => {
    for (const view of ["overview", "timeline", "tools", "faults", "compare"]) {
      await open(page, "async", view);
      for (const kind of ["PNG", "CSV"]) {
        const buttons = page.locator(`button[aria-label$="as ${kind}"]`);
        assert.ok((await buttons.count()) > 0, `${view} has a button for ${kind}`);
        // All of the first view; the others use the same parts.
        const most = view === "overview" ? Infinity : 2;
        for (let i = 0; i < Math.min(most, await buttons.count()); ++i) {
          await page.waitForTimeout(200); // Chromium drops downloads of which more than ten come at once
          const [download] = await Promise.all([page.waitForEvent("download"), buttons.nth(i).click()]);
          const bytes = fs.readFileSync(await download.path());
          if (kind === "PNG") assert.equal(bytes.subarray(1, 4).toString(), "PNG");
          else assert.ok(bytes.toString().split("\n").length > 2, `${view}: ${download.suggestedFilename()} has rows`);
        }
      }
    }
  });

  await step("episodes are filtered", async () => {
    await open(page, "async", "episodes");
    const expected = (await api("/api/runs/async/episodes?solved=false&sort=worst&limit=50")).total;
    await page.getByLabel("Result").selectOption("false");
    await page.getByLabel("Order").selectOption("worst");
    await page.getByText(`of ${expected.toLocaleString("en-US")}`).waitFor();
    const rewards = await page.locator('td[data-name="Reward"]').allInnerTexts();
    assert.deepEqual([...rewards].map(Number), [...rewards].map(Number).sort((a, b) => a - b));
    await page.getByLabel("Lag at least").fill("1");
    await page.getByLabel("Lag at least").press("Enter");
    const lagged = (await api("/api/runs/async/episodes?solved=false&lag_min=1")).total;
    assert.notEqual(lagged, expected);
    await page.getByText(`of ${lagged.toLocaleString("en-US")}`).waitFor();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("51 to 100").waitFor();
  });

  await step("a transcript is read, token by token", async () => {
    await page.locator("tbody a").first().click();
    await settled(page);
    await page.getByText("Turn 1", { exact: false }).first().waitFor();
    const text = await page.locator(".tokens").first().innerText();
    assert.match(text, /int f\(int a, int b\)/);
    assert.ok((await page.locator(".tokens .lp0").count()) > 0 && (await page.locator(".tokens .lp4, .tokens .lp5").count()) > 0);
    assert.match(await page.locator(".tokens span").first().getAttribute("title"), /version \d+, probability/);
    await page.screenshot({ path: path.join(shots, "transcript-wide.png") });
    await page.getByLabel("Policy version").check();
    assert.ok((await page.locator(".tokens .v0").count()) > 0);
    await page.getByLabel("Code").check();
    assert.ok((await page.locator(".k-word").count()) > 0);
    await page.getByText("tests", { exact: true }).first().waitFor(); // the verdict's parts
    await page.setViewportSize(SIZES.phone);
    await fits(page);
    await page.screenshot({ path: path.join(shots, "transcript-phone.png") });
    await page.setViewportSize(SIZES.wide);
  });

  await step("a group is read side by side", async () => {
    await page.locator(".crumbs a", { hasText: "group" }).click();
    await page.locator(".member .turn").nth(3).waitFor();
    assert.equal(await page.locator(".member").count(), 4);
    await page.screenshot({ path: path.join(shots, "group-wide.png") });
  });

  await step("tasks are filtered and one is looked at over time", async () => {
    await open(page, "async", "tasks");
    await page.getByRole("button", { name: /unsolved/ }).click();
    await page.waitForFunction(() => [...document.querySelectorAll('td[data-name="State"]')].every((td) => td.textContent === "unsolved"));
    await page.getByRole("button", { name: "all" }).click();
    await page.getByLabel("Name has").fill("gcd");
    await page.locator("button.link").first().click();
    await page.locator("figure.chart h3", { hasText: "gcd" }).waitFor();
  });

  await step("the timeline is zoomed by keyboard and shows two runs", async () => {
    await open(page, "async", "timeline");
    await page.getByLabel("Beside").selectOption("sync");
    await page.locator(".lanes canvas").nth(1).waitFor();
    await settled(page);
    await page.screenshot({ path: path.join(shots, "timeline-two-wide.png"), fullPage: true });
    await page.locator(".lanes canvas").first().focus();
    await page.keyboard.press("+");
    await page.getByText("Back to the whole window").click();
  });

  await step("compare and config show the differences of two runs", async () => {
    await open(page, "async", "compare", "sync");
    await page.locator("code", { hasText: "learner.learning_rate" }).waitFor();
    await open(page, "async", "config");
    await page.getByLabel("only what is not the default").check();
    assert.equal(await page.locator("tbody tr").count(), 1);
  });

  await step("the page is used by keyboard alone", async () => {
    await open(page, "async", "overview");
    await page.reload();
    await settled(page);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.locator('nav a[href$="/faults"]').focus();
    await page.keyboard.press("Enter");
    await page.getByText("What of ours failed").waitFor();
  });

  await step("dark is dark", async () => {
    await open(page, "async", "overview");
    await page.getByLabel(/^Theme/).click();
    await page.getByLabel(/^Theme: light/).click();
    await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === "rgb(13, 22, 26)");
    await page.waitForTimeout(300);
    await page.screenshot({ path: path.join(shots, "overview-dark-wide.png") });
    await page.getByLabel(/^Theme/).click();
  });

  const live = start("live", runs, "live");
  await step("a run that goes on is seen live, in every view", async () => {
    while (!(await api("/api/runs")).runs.some((run) => run.name === "live" && run.counts?.steps > 0)) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await open(page, "live", "overview");
    await page.locator(".live.on").waitFor();
    await page.locator(".badge", { hasText: "running" }).waitFor();
    const first = Number(await stat(page, "Steps"));
    await page.waitForFunction((n) => Number([...document.querySelectorAll(".stat")].find((s) => s.textContent.startsWith("Steps")).querySelector(".value").textContent) > n + 1, first);
    for (const view of VIEWS) await open(page, "live", view);
  });

  await step("after a restart of the server the page comes back by itself", async () => {
    await open(page, "live", "overview");
    await page.locator(".live.on").waitFor();
    forgiving = true;
    await stop(server.child);
    await page.locator(".live.off").waitFor();
    const before = Number(await stat(page, "Steps"));
    server = await serve(server.port, "async");
    await page.locator(".live.on").waitFor();
    await page.waitForFunction((n) => Number([...document.querySelectorAll(".stat")].find((s) => s.textContent.startsWith("Steps")).querySelector(".value").textContent) > n, before);
    await page.waitForTimeout(200);
    forgiving = false;
  });

  await step("the page's memory stays bounded while a run goes on", async () => {
    const devtools = await context.newCDPSession(page);
    const heap = async () => {
      await devtools.send("HeapProfiler.collectGarbage");
      return (await devtools.send("Runtime.getHeapUsage")).usedSize / 1e6;
    };
    await open(page, "live", "overview");
    await page.waitForTimeout(4000);
    const early = await heap();
    await page.waitForTimeout(12_000);
    const late = await heap();
    console.log(`    heap ${early.toFixed(1)} MB, 12 s later ${late.toFixed(1)} MB`);
    assert.ok(late < early + 6, `${early} MB grew to ${late} MB`);
  });
  await stop(live);

  await step("with a token the page asks for it", async () => {
    forgiving = true;
    const guarded = await serve(0, "async", TOKEN);
    origin = guarded.url;
    await page.goto(origin);
    await page.getByRole("heading", { name: "A token is needed" }).waitFor();
    await page.getByLabel("Token").fill("a-wrong-token-altogether");
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("heading", { name: "A token is needed" }).waitFor();
    await page.getByLabel("Token").fill(TOKEN);
    await page.getByRole("button", { name: "Open" }).click();
    await page.locator(".live.on").waitFor();
    await page.goto("about:blank");
    await stop(guarded.child);
    forgiving = false;
  });

  await step("a report in one file needs no server", async () => {
    const report = path.join(folder, "report.html");
    assert.equal(spawnSync(fixture, ["export", runs, pageFolder, "async", report], { stdio: "inherit" }).status, 0);
    origin = pathToFileURL(report).href;
    for (const view of VIEWS.filter((name) => name !== "compare")) {
      await page.goto(`${origin}#/async/${view}`);
      await settled(page);
      assert.equal(await page.locator(".problem").count(), 0, view);
    }
    await page.goto(`${origin}#/async/episodes`);
    await page.locator("tbody a").first().click();
    await page.locator(".tokens").first().waitFor();
  });

  await stop(server.child);
}

let failed = false;
try {
  await main();
  console.log(`all done; screenshots in ${shots}`);
} catch (error) {
  failed = true;
  console.error(error);
  if (problems.length) console.error(problems.join("\n"));
}
await context?.close();
for (const child of children) child.kill();
fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
process.exit(failed ? 1 : 0);
