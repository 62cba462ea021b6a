import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";

import { finishRun, isExport, setToken, token, type Json } from "./api";
import { link, LiveContext, useApi, useEvery, useFollow, useRoute } from "./hooks";
import { Badge, Loading, Problem } from "./parts";
import { chooseTheme, chosenTheme, THEMES } from "./theme";
import { Compare } from "./views/compare";
import { Config } from "./views/config";
import { Episodes, Group } from "./views/episodes";
import { Faults } from "./views/faults";
import { Fleet, lostText } from "./views/fleet";
import { Gateway } from "./views/gateway";
import { Judges, hasJudges } from "./views/judges";
import { Memory } from "./views/memory";
import { Metrics } from "./views/metrics";
import { Overview } from "./views/overview";
import { Release } from "./views/release";
import { Sessions } from "./views/sessions";
import { Tasks } from "./views/tasks";
import { Timeline } from "./views/timeline";
import { Tools } from "./views/tools";
import { Verifiers, hasVerifiers } from "./views/verifiers";

const VIEWS = ["overview", "metrics", "fleet", "gateway", "timeline", "episodes", "sessions", "tools", "tasks", "judges", "verifiers", "memory", "faults", "release", "compare", "config"];

function TokenForm(props: { error: string }) {
  const [value, setValue] = useState("");
  return (
    <form
      class="panel token"
      onSubmit={(event) => {
        event.preventDefault();
        setToken(value.trim());
        location.reload();
      }}
    >
      <h2>A token is required</h2>
      <p class="note">{props.error}</p>
      <label>
        Token
        <input type="password" value={value} autocomplete="off" onInput={(e) => setValue(e.currentTarget.value)} />
      </label>
      <button type="submit">Open</button>
    </form>
  );
}

function ThemeChoice() {
  const [theme, setTheme] = useState(chosenTheme);
  const choose = () => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    setTheme(next);
    chooseTheme(next);
  };
  return (
    <button type="button" class="quiet" onClick={choose} aria-label={`Theme: ${theme}. Change it.`}>
      {theme === "system" ? "◐" : theme === "light" ? "☀" : "☾"}
    </button>
  );
}

function FinishButton() {
  const [asked, setAsked] = useState("");
  const finish = () => {
    if (!confirm("End this run after its step, saved and evaluated?")) return;
    finishRun().then(
      () => setAsked("Finishing"),
      () => setAsked("Not finished"),
    );
  };
  return (
    <button type="button" disabled={asked !== ""} onClick={finish}>
      {asked || "Finish the run"}
    </button>
  );
}

function Brand(props: { href: string }) {
  return (
    <a class="brand" href={props.href}>
      <svg viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="7" />
        <path d="M4 13c4-5 8-5 12 0s8 5 12 0M4 20c4-5 8-5 12 0s8 5 12 0" />
      </svg>
      Tidemill
    </a>
  );
}

// A gateway that belongs to no run.
function GatewayAlone(props: { about: Json }) {
  useEffect(() => {
    document.title = "Gateway · Tidemill";
  }, []);
  return (
    <>
      <header class="top">
        <Brand href="#" />
        <span class="gap" />
        <ThemeChoice />
      </header>
      <main id="main" tabIndex={-1}>
        <h1 class="hidden">Gateway</h1>
        <Gateway />
      </main>
      <footer>{props.about.program}</footer>
    </>
  );
}

function Shell(props: { run: string; runs: Json[]; about: Json }) {
  const route = useRoute();
  const live = useFollow(props.run);
  const fleet = useApi(isExport ? null : `/api/runs/${props.run}/fleet?limit=1`, useEvery(5000)).data;
  const sessions = useApi(isExport ? null : `/api/runs/${props.run}/sessions?limit=1`, useEvery(5000)).data;
  const release = useApi(isExport ? null : `/api/runs/${props.run}/release`, useEvery(5000)).data;
  const judges = useApi(isExport ? null : `/api/runs/${props.run}/series?points=2&prefix=judg,audit_,proofs_`, useEvery(5000)).data;
  const memory = useApi(isExport ? null : `/api/runs/${props.run}/config`).data;
  const shown = (name: string) => {
    if (name === "judges") return hasJudges(judges?.tick);
    if (name === "verifiers") return hasVerifiers(judges?.tick);
    if (name === "memory") return memory?.values?.["memory.on"] === true;
    if (name === "fleet") return fleet?.many;
    if (name === "gateway") return props.about.gateway && props.run === props.about.default_run;
    if (name === "sessions") return sessions?.sessions.length > 0;
    if (name === "release") return release?.released;
    return name !== "compare" || !isExport;
  };
  const entry = props.runs.find((r) => r.name === props.run);
  const state = live.state || entry?.state || "";
  const view = route.view === "groups" ? "episodes" : VIEWS.includes(route.view) ? route.view : "overview";
  useEffect(() => {
    document.title = `${props.run} · ${view} · Tidemill`;
  }, [props.run, view]);
  useEffect(() => {
    document.querySelector(".tabs [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [view]);
  return (
    <LiveContext.Provider value={{ ...live, state, fleet }}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        To the content
      </a>
      <header class="top">
        <Brand href={link(props.run, "overview")} />
        <label class="run">
          <span class="hidden">Run</span>
          <select value={props.run} onChange={(e) => (location.hash = link(e.currentTarget.value, view))}>
            {props.runs.map((r) => (
              <option key={r.name}>{r.name}</option>
            ))}
          </select>
        </label>
        <Badge text={state || "…"} />
        {!isExport && (
          <span class={`live ${live.connected ? "on" : "off"}`} role="status">
            <span class="live-text">{!live.connected ? "reconnecting" : state === "running" ? "live" : "connected"}</span>
          </span>
        )}
        <span class="gap" />
        {token() && state === "running" && props.about.actions.includes("finish") && props.run === props.about.default_run && <FinishButton />}
        <ThemeChoice />
      </header>
      <nav class="tabs" aria-label="Views">
        {VIEWS.filter(shown).map((name) => (
          <a key={name} href={link(props.run, name)} aria-current={view === name ? "page" : undefined}>
            {name[0].toUpperCase() + name.slice(1)}
            {name === "fleet" && lostText(fleet) && <span class="badge bad">{lostText(fleet)}</span>}
          </a>
        ))}
      </nav>
      <main id="main" tabIndex={-1} key={props.run}>
        <h1 class="hidden">
          {view} of {props.run}
        </h1>
        {route.view === "groups" && route.parts[0] !== undefined ? (
          <Group run={props.run} group={route.parts[0]} />
        ) : view === "overview" ? (
          <Overview run={props.run} />
        ) : view === "metrics" ? (
          <Metrics run={props.run} runs={props.runs} route={route} />
        ) : view === "fleet" ? (
          <Fleet run={props.run} />
        ) : view === "gateway" ? (
          <Gateway />
        ) : view === "timeline" ? (
          <Timeline run={props.run} runs={props.runs} />
        ) : view === "episodes" ? (
          <Episodes run={props.run} route={route} />
        ) : view === "sessions" ? (
          <Sessions run={props.run} route={route} />
        ) : view === "tools" ? (
          <Tools run={props.run} />
        ) : view === "tasks" ? (
          <Tasks run={props.run} />
        ) : view === "judges" ? (
          <Judges run={props.run} />
        ) : view === "verifiers" ? (
          <Verifiers run={props.run} />
        ) : view === "memory" ? (
          <Memory run={props.run} route={route} />
        ) : view === "faults" ? (
          <Faults run={props.run} />
        ) : view === "release" ? (
          <Release run={props.run} />
        ) : view === "compare" ? (
          <Compare run={props.run} runs={props.runs} route={route} />
        ) : (
          <Config run={props.run} runs={props.runs} />
        )}
      </main>
      <footer>{props.about.program}</footer>
    </LiveContext.Provider>
  );
}

function App() {
  const route = useRoute();
  const [again, setAgain] = useState(0);
  const about = useApi("/api/about", again);
  const runs = useApi("/api/runs", again);
  const list: Json[] = runs.data?.runs ?? [];
  const known = (name: string) => list.some((r) => r.name === name);
  const waiting = Boolean(runs.error) || list.length === 0 || (route.run !== "" && !known(route.run));
  useEffect(() => {
    // New runs appear; a server that does not answer is asked again.
    const timer = setInterval(() => setAgain((n) => n + 1), waiting ? 2000 : 15_000);
    return () => clearInterval(timer);
  }, [waiting]);
  if (runs.status === 401 || about.status === 401) return <TokenForm error={runs.error || about.error} />;
  if (!runs.data || !about.data) return runs.error ? <Problem error={runs.error} /> : <Loading />;
  if (about.data.gateway && about.data.default_run === "") return <GatewayAlone about={about.data} />;
  if (list.length === 0) return <p class="empty">No runs yet. Start one with: tidemill train</p>;
  const run = known(route.run) ? route.run : known(about.data.default_run) ? about.data.default_run : list[0].name;
  return <Shell run={run} runs={list} about={about.data} />;
}

render(<App />, document.getElementById("app")!);
