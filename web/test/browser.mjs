// What the tests of the page share: Chromium, the processes they start, and what must never happen on a page.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const SIZES = { wide: { width: 1280, height: 860 }, phone: { width: 390, height: 844 } };
export const VIEWS = ["overview", "metrics", "timeline", "episodes", "tools", "tasks", "faults", "compare", "config"];

export const args = new Map();
for (let i = 2; i < process.argv.length; i += 2) args.set(process.argv[i], process.argv[i + 1]);

export function skip(why) {
  console.log(`SKIPPED: ${why}`);
  process.exit(77);
}

export const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tidemill-web-"));
const children = new Set();

// Starts a program whose standard input ends when it is to stop. `line` resolves to the first line of its output
// that matches.
export function start(program, words, { input = "pipe" } = {}) {
  const child = spawn(program, words, { stdio: [input, "pipe", "pipe"] });
  child.text = "";
  const waiting = [];
  const look = () => {
    for (const one of [...waiting]) {
      const match = one.pattern.exec(child.text);
      if (!match) continue;
      waiting.splice(waiting.indexOf(one), 1);
      one.resolve(match);
    }
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (bytes) => {
      child.text = (child.text + bytes).slice(-100_000);
      look();
    });
  }
  child.ended = new Promise((resolve) =>
    child.on("exit", (code) => {
      children.delete(child);
      for (const one of waiting) one.reject(new Error(`${program} ended with ${code}:\n${child.text}`));
      resolve(code);
    }),
  );
  child.line = (pattern) =>
    new Promise((resolve, reject) => {
      waiting.push({ pattern, resolve, reject });
      look();
    });
  children.add(child);
  return child;
}

export function run(program, ...words) {
  const child = start(program, words, { input: "ignore" });
  return child.ended.then((code) => assert.equal(code, 0, `${words.join(" ")}\n${child.text}`));
}

// Tasks and a policy so small that a step takes an instant: train.jsonl, eval.jsonl and model/ in `folder`.
export async function makeModelAndTasks(program) {
  const at = (name) => path.join(folder, name);
  await run(program, "tasks", "generate", "--family", "cfunc", "--count", "40", "--seed", "3", "--difficulty", "1,2", "--out", at("train.jsonl"));
  await run(program, "tasks", "generate", "--family", "cfunc", "--count", "4", "--seed", "4", "--split", "heldout", "--difficulty", "1", "--out", at("eval.jsonl"));
  await run(program, "tasks", "model", "--family", "cfunc", "--width", "32", "--layers", "2", "--heads", "2", "--feed-forward", "64", "--out", at("shape"));
  await run(program, "model", "new", "--config", at("shape/config.json"), "--tokenizer", at("shape"), "--seed", "1", "--out", at("model"));
}

// The keys of a run on what makeModelAndTasks made.
export const tinyRun = {
  "model.path": path.join(folder, "model"),
  "model.protocol": "compact",
  "tasks.train": path.join(folder, "train.jsonl"),
  "rollout.group_size": 4,
  "rollout.groups_per_step": 2,
  "rollout.max_turn_tokens": 8,
  "rollout.max_turns": 2,
  "rollout.max_in_flight": 32,
  "replay.drop_zero_variance": false,
  "reward.weights.format": 0.1,
};

// Asserts again until it holds, as a person would look again: pages do not change in an instant. Fails as the last look did.
export async function until(look, patience = 30_000) {
  const end = Date.now() + patience;
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

export class Browser {
  static async open(timeout) {
    const program = args.get("--chromium") ?? "/usr/bin/chromium";
    if (!fs.existsSync(program)) skip(`${program} is not there (Debian package chromium)`);
    const page = args.get("--page");
    if (!fs.existsSync(path.join(page, "index.html"))) skip(`the page was not built at ${page} (npm could not fetch its packages)`);
    const { chromium } = await import("playwright-core").catch(() => skip("playwright-core is not installed (npm ci in web/)"));
    const browser = new Browser();
    browser.context = await chromium.launchPersistentContext(path.join(folder, "profile"), {
      executablePath: program,
      headless: true,
      chromiumSandbox: false,
      viewport: SIZES.wide,
      colorScheme: "light",
      timezoneId: "UTC",
      acceptDownloads: true,
      args: ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    });
    browser.page = browser.context.pages()[0] ?? (await browser.context.newPage());
    browser.page.setDefaultTimeout(timeout);
    browser.problems = [];
    browser.forgiving = false; // while the server is away, failed requests are expected
    browser.origin = "";
    browser.asking = new Set(); // requests the page waits for
    browser.watch();
    return browser;
  }

  watch() {
    const { page, problems } = this;
    page.on("console", (message) => {
      if (message.type() !== "error" && message.type() !== "warning") return;
      if (this.forgiving && /Failed to load resource|ERR_/.test(message.text())) return;
      problems.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => problems.push(`exception: ${error.stack ?? error}`));
    const answered = (request) => this.asking.delete(request);
    page.on("requestfinished", answered);
    page.on("requestfailed", answered);
    page.on("request", (request) => {
      const url = request.url();
      if (!url.includes("/api/events")) this.asking.add(request);
      if (/^(data|blob):/.test(url)) return;
      if (!url.startsWith(this.origin)) problems.push(`request to elsewhere: ${url}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400 && !this.forgiving) problems.push(`${response.status()}: ${response.url()}`);
    });
  }

  async step(name, body) {
    const begin = Date.now();
    await body();
    assert.deepEqual(this.problems, [], name);
    console.log(`ok  ${name}  (${Date.now() - begin} ms)`);
  }

  async goto(url) {
    this.asking.clear(); // what the view before asked for is nobody's any more
    await this.page.goto(url);
  }

  // From now on another server is asked, or the first one. The page before is left first: what it asks of its own
  // server then would count as a request to elsewhere.
  async moveTo(origin) {
    await this.goto("about:blank");
    this.origin = origin;
  }

  async open(run, view, ...parts) {
    await this.goto(`${this.origin}#/${[run, view, ...parts].join("/")}`);
    if (VIEWS.includes(view) && parts.length === 0) await this.page.locator(`nav a[aria-current][href$="/${view}"]`).waitFor();
    await this.settled();
  }

  async settled() {
    const { page } = this;
    await page.waitForSelector("main");
    await page.waitForFunction(() => !document.querySelector("main")?.textContent.includes("Loading…"));
    // Charts appear once they know their width.
    await page.waitForFunction(() => [...document.querySelectorAll("figure.chart")].every((chart) => chart.querySelector("canvas, .empty")));
    // Asked for everything, and it came, and was painted.
    const painted = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await painted();
    await until(() => assert.equal(this.asking.size, 0));
    await painted();
    await page.waitForTimeout(150);
  }

  async fits() {
    const [content, screen] = await this.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(content <= screen, `the page is ${content} wide on a screen of ${screen}`);
  }

  // What a figure of the view says, "40" for Steps.
  stat(name) {
    const { page } = this;
    return page.locator(".stat", { has: page.locator(".name", { hasText: new RegExp(`^${name}$`) }) }).locator(".value").innerText();
  }
  async statOver(name, least) {
    await this.page.waitForFunction(
      ([n, min]) => {
        const found = [...document.querySelectorAll(".stat")].find((s) => s.querySelector(".name").textContent === n);
        return found && Number(found.querySelector(".value").textContent.replace(/,/g, "")) > min;
      },
      [name, least],
    );
  }

  // Megabytes of the page's JavaScript after collecting what is not used any more.
  async heap() {
    this.devtools ??= await this.context.newCDPSession(this.page);
    await this.devtools.send("HeapProfiler.collectGarbage");
    return (await this.devtools.send("Runtime.getHeapUsage")).usedSize / 1e6;
  }
}

// Runs a test and ends the process with its status, leaving nothing behind.
export async function test(body, timeout = 60_000) {
  let browser;
  let failed = false;
  try {
    browser = await Browser.open(timeout);
    await body(browser);
    console.log("all done");
  } catch (error) {
    failed = true;
    console.error(error);
    if (browser?.problems.length) console.error(browser.problems.join("\n"));
    const picture = path.join(os.tmpdir(), "tidemill-web-failure.png");
    await browser?.page.screenshot({ path: picture }).then(() => console.error(`the page as it was: ${picture}`), () => {});
  }
  await browser?.context.close();
  for (const child of children) child.kill();
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  process.exit(failed ? 1 : 0);
}
