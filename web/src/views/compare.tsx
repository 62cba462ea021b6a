import { useState } from "preact/hooks";

import type { Json } from "../api";
import { Chart, type Series } from "../chart";
import { duration, percent, short, words } from "../format";
import { link, useApi, useLive, type Route } from "../hooks";
import { Loading, Panel, Problem } from "../parts";
import { column, rate, shareBetween, smooth, type Values } from "../series";

// Two curves with their own times on one axis of seconds since their begin.
function overlay(name: [string, string], a: [number[], Values], b: [number[], Values]): { x: number[]; series: Series[] } {
  const clean = ([times, values]: [number[], Values]) => times.map((t, i) => [(t - times[0]) / 1000, values[i]] as const).filter(([, v]) => v !== null);
  const first = clean(a);
  const second = clean(b);
  const x = [...new Set([...first, ...second].map(([t]) => t))].sort((p, q) => p - q);
  const on = (points: (readonly [number, number | null])[]) => {
    const at = new Map(points);
    return x.map((t) => at.get(t) ?? null);
  };
  return {
    x,
    series: [
      { name: name[0], values: on(first), color: "c1" },
      { name: name[1], values: on(second), color: "c3" },
    ],
  };
}

// Two curves over the learner's steps.
function overStep(names: [string, string], a: Json, b: Json, name: string): { x: number[]; series: Series[] } {
  const points = (series: Json) => new Map((column(series, "step") as number[]).map((at, i) => [at, column(series, name)[i]] as const));
  const first = points(a);
  const second = points(b);
  const x = [...new Set([...first.keys(), ...second.keys()])].sort((p, q) => p - q);
  return {
    x,
    series: [
      { name: names[0], values: x.map((at) => first.get(at) ?? null), color: "c1" },
      { name: names[1], values: x.map((at) => second.get(at) ?? null), color: "c3" },
    ],
  };
}

function useRun(run: string, beat: number) {
  const name = run || null;
  return {
    run: useApi(name && `/api/runs/${run}`, beat),
    series: useApi(name && `/api/runs/${run}/series`, beat),
    rate: useApi(name && `/api/runs/${run}/pass_rate`, beat),
    config: useApi(name && `/api/runs/${run}/config`),
  };
}

export function Compare(props: { run: string; runs: Json[]; route: Route }) {
  const live = useLive();
  const others = props.runs.filter((r) => r.name !== props.run).map((r) => r.name as string);
  const other = props.route.parts[0] ?? others[0] ?? "";
  const [axis, setAxis] = useState<"time" | "step">("time");
  const a = useRun(props.run, live.beat);
  const b = useRun(other, 0);
  const choose = (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      <label>
        {props.run} beside
        <select value={other} onChange={(e) => (location.hash = link(props.run, "compare", e.currentTarget.value))}>
          {others.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
    </form>
  );
  if (!other) return <p class="empty">There is no other run to compare with.</p>;
  const error = a.run.error || b.run.error || a.series.error || b.series.error;
  if (!a.run.data || !b.run.data || !a.series.data || !b.series.data || !a.rate.data || !b.rate.data)
    return (
      <>
        {choose}
        {error ? <Problem error={error} /> : <Loading />}
      </>
    );
  const names: [string, string] = [props.run, other];
  const ticks = [a.series.data.tick, b.series.data.tick];
  const tick = (values: (t: Json) => Values) => overlay(names, [ticks[0].time_ms, values(ticks[0])], [ticks[1].time_ms, values(ticks[1])]);
  const points = [a.rate.data.points, b.rate.data.points];
  const pass = overlay(names, [points[0].map((p: Json) => p.from_ms), points[0].map((p: Json) => p.pass_rate)], [points[1].map((p: Json) => p.from_ms), points[1].map((p: Json) => p.pass_rate)]);
  const steps = [a.series.data.step, b.series.data.step];
  const step = (name: string) => overStep(names, steps[0], steps[1], name);
  const busy = (name: string) => tick((t) => smooth(shareBetween(column(t, "seconds"), column(t, name)), 5));
  return (
    <>
      {choose}
      <Numbers names={names} runs={[a.run.data, b.run.data]} />
      <div class="filters">
        <label>
          Axis
          <select value={axis} onChange={(e) => setAxis(e.currentTarget.value as "time" | "step")}>
            <option value="time">seconds since the start</option>
            <option value="step">learner steps</option>
          </select>
        </label>
      </div>
      {axis === "step" ? (
        <div class="grid">
          <Chart title="Pass rate of the batch, by step" xKind="number" xName="step" {...step("batch_pass_rate")} min={0} max={1} format={(v) => percent(v)} />
          <Chart title="Reward, by step" xKind="number" xName="step" {...step("reward")} />
          <Chart title="Entropy in nats, by step" xKind="number" xName="step" {...step("entropy")} />
          <Chart title="KL to the sampler in nats, by step" xKind="number" xName="step" {...step("policy_kl")} />
          <Chart title="Lag in steps, by step" xKind="number" xName="step" {...step("lag_mean")} min={0} />
        </div>
      ) : (
        <div class="grid">
          <Chart title="Pass rate while training, both" xKind="number" xName="seconds" {...pass} min={0} max={1} format={(v) => percent(v)} />
          <Chart title="Steps, both" xKind="number" xName="seconds" {...tick((t) => column(t, "steps"))} min={0} />
          <Chart title="Tokens per second, both" xKind="number" xName="seconds" {...tick((t) => smooth(rate(t.time_ms, column(t, "generated_tokens")), 3))} min={0} />
          <Chart title="Engine busy, both" xKind="number" xName="seconds" {...busy("busy_port_engine")} min={0} max={1} format={(v) => percent(v)} />
          <Chart title="Trainer busy, both" xKind="number" xName="seconds" {...busy("busy_port_trainer")} min={0} max={1} format={(v) => percent(v)} />
        </div>
      )}
      {a.config.data && b.config.data && <Differences names={names} values={[a.config.data.values, b.config.data.values]} />}
    </>
  );
}

function Numbers(props: { names: [string, string]; runs: Json[] }) {
  const rows: [string, (r: Json) => string][] = [
    ["state", (r) => r.state],
    ["steps", (r) => short(r.counts.steps)],
    ["episodes", (r) => short(r.counts.episodes)],
    ["time", (r) => duration(1000 * (r.tick.seconds ?? r.summary?.seconds ?? NaN))],
    ["generated tokens per second", (r) => short(r.tick.generated_tokens / (r.tick.seconds || NaN))],
    ["steps per minute", (r) => short((60 * r.counts.steps) / (r.tick.seconds || NaN))],
    ["pass rate before", (r) => evalOf(r, "before")],
    ["pass rate after", (r) => evalOf(r, "after")],
    ["engine busy", (r) => percent(r.tick.busy_port_engine)],
    ["trainer busy", (r) => percent(r.tick.busy_port_trainer)],
    ["generated tokens", (r) => short(r.tick.generated_tokens)],
    ["stale", (r) => short(r.tick.stale)],
    ["retries", (r) => short(r.tick.tool_retries)],
    ["warnings", (r) => short(r.warnings)],
  ];
  return (
    <Panel title="Numbers">
      <table class="plain">
        <thead>
          <tr>
            <th />
            <th class="num">{props.names[0]}</th>
            <th class="num">{props.names[1]}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td class="num">{value(props.runs[0])}</td>
              <td class="num">{value(props.runs[1])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function evalOf(run: Json, name: string): string {
  const found = run.evals.find((e: Json) => e.name === name);
  return found ? `${percent(found.pass_rate, 1)} ± ${(100 * found.ci95).toFixed(0)}` : "–";
}

export function Differences(props: { names: [string, string]; values: [Json, Json] }) {
  const [a, b] = props.values;
  const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort();
  const differ = keys.filter((key) => JSON.stringify(a[key]) !== JSON.stringify(b[key]));
  return (
    <Panel title="Differences of the configs">
      {differ.length === 0 ? (
        <p class="empty">None.</p>
      ) : (
        <table class="rows">
          <thead>
            <tr>
              <th>Key</th>
              <th>{words(props.names[0])}</th>
              <th>{words(props.names[1])}</th>
            </tr>
          </thead>
          <tbody>
            {differ.map((key) => (
              <tr key={key}>
                <td data-name="Key">
                  <code>{key}</code>
                </td>
                <td data-name={props.names[0]} class="wide">
                  <code>{key in a ? JSON.stringify(a[key]) : "–"}</code>
                </td>
                <td data-name={props.names[1]} class="wide">
                  <code>{key in b ? JSON.stringify(b[key]) : "–"}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
