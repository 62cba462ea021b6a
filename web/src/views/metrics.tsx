// Any metric of any number of runs, as lines in one chart.
import { useState } from "preact/hooks";

import type { Json } from "../api";
import { setQuery, useApis, useLive, type Route } from "../hooks";
import { Loading, Panel, Problem } from "../parts";
import { AxisChoice, axisOf, metricName, RunChoice, RunsChart } from "../runs";
import { column, rate } from "../series";

const SMOOTHING = [1, 5, 10, 25, 50, 100];
const FIRST = "step:reward";
const MOST = 12;

const list = (text: string | null) => (text ?? "").split(",").filter(Boolean).map(decodeURIComponent);
const unlist = (names: string[]) => names.map(encodeURIComponent).join(",");

// "step:loss": a column of the learner's steps; "tick:episodes_stored": one of every second.
function namesIn(series: Json[]): string[] {
  const found = new Set<string>();
  for (const one of series) {
    for (const kind of ["step", "tick"]) for (const name of Object.keys(one[kind]?.columns ?? {})) found.add(`${kind}:${name}`);
  }
  return [...found].filter((name) => !/_hist_|^step:step$/.test(name)).sort((a, b) => a.localeCompare(b));
}

export function Metrics(props: { run: string; runs: Json[]; route: Route }) {
  const live = useLive();
  const [search, setSearch] = useState("");
  const [runSearch, setRunSearch] = useState("");
  const query = props.route.query;
  const others = list(query.get("runs")).filter((name) => props.runs.some((r) => r.name === name));
  const wanted = [props.run, ...others];
  const axis = axisOf(query.get("x"));
  const smoothing = Number(query.get("smooth")) || 1;
  const log = query.get("log") === "1";
  const perSecond = query.get("rate") === "1";
  const chosen = list(query.get("m") ?? encodeURIComponent(FIRST));
  const set = (changes: Record<string, string>) => setQuery(props.route, changes);
  const loaded = useApis(wanted.map((name) => `/api/runs/${name}/series?points=2000`), live.beat);
  if (loaded.data[0] === null) return loaded.error ? <Problem error={loaded.error} /> : <Loading />;
  const names = wanted.filter((_, i) => loaded.data[i] !== null); // a run that was just chosen comes soon
  const series = loaded.data.filter((one) => one !== null) as Json[];
  const all = namesIn(series);
  const shown = all.filter((name) => chosen.includes(name) || name.replace(/_/g, " ").includes(search.toLowerCase().replace(/_/g, " ")));
  const toggle = (name: string) => set({ m: unlist(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name].slice(-MOST)) });
  return (
    <>
      <Problem error={loaded.error} />
      <RunChoice run={props.run} runs={props.runs} chosen={others} search={runSearch} onSearch={setRunSearch} onChange={(next) => set({ runs: unlist(next) })} />
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <AxisChoice value={axis} onChange={(next) => set({ x: next === "step" ? "" : next })} />
        <label>
          Smoothing
          <select value={smoothing} onChange={(e) => set({ smooth: e.currentTarget.value === "1" ? "" : e.currentTarget.value })}>
            {SMOOTHING.map((width) => (
              <option key={width} value={width}>
                {width === 1 ? "none" : `mean of ${width} rows`}
              </option>
            ))}
          </select>
        </label>
        <label class="check">
          <input type="checkbox" checked={log} onChange={(e) => set({ log: e.currentTarget.checked ? "1" : "" })} /> logarithmic
        </label>
        <label class="check">
          <input type="checkbox" checked={perSecond} onChange={(e) => set({ rate: e.currentTarget.checked ? "1" : "" })} /> totals as growth per second
        </label>
      </form>
      <div class="metrics">
        <Panel title="Metrics">
          <input type="search" aria-label="Metric has" placeholder="part of a name" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
          <div class="metric-list" tabIndex={0} role="group" aria-label="Metrics">
            {["step", "tick"].filter((kind) => shown.some((name) => name.startsWith(`${kind}:`))).map((kind) => (
              <div key={kind}>
                <h3>{kind === "step" ? "Of each step" : "Of each second"}</h3>
                {shown
                  .filter((name) => name.startsWith(`${kind}:`))
                  .map((name) => (
                    <label key={name}>
                      <input type="checkbox" checked={chosen.includes(name)} onChange={() => toggle(name)} /> {metricName(name.slice(kind.length + 1))}
                    </label>
                  ))}
              </div>
            ))}
          </div>
        </Panel>
        <div class="grid">
          {chosen.length === 0 && <p class="empty">Choose a metric.</p>}
          {chosen.map((name) => {
            const kind = name.startsWith("tick:") ? "tick" : "step";
            const key = name.slice(5);
            const growth = perSecond && kind === "tick";
            return (
              <RunsChart
                key={name}
                title={metricName(key) + (growth ? " per second" : "")}
                names={names}
                series={series}
                kind={kind}
                axis={axis}
                smoothing={smoothing}
                log={log}
                values={(rows) => (growth ? rate(rows.time_ms, column(rows, key)) : column(rows, key))}
              />
            );
          })}
        </div>
      </div>
    </>
  );
}
