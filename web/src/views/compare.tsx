import { useState } from "preact/hooks";

import type { Json } from "../api";
import { evaluation, rateText } from "../evaluations";
import { duration, percent, short } from "../format";
import { link, setQuery, useApis, useLive, type Route } from "../hooks";
import { Loading, Panel, Problem } from "../parts";
import { AxisChoice, axisOf, lineOf, RunChoice, RunsChart } from "../runs";
import { column, rate, shareBetween, smooth } from "../series";

export function Compare(props: { run: string; runs: Json[]; route: Route }) {
  const live = useLive();
  const [search, setSearch] = useState("");
  const known = (name: string) => name !== props.run && props.runs.some((r) => r.name === name);
  const first = props.runs.find((r) => r.name !== props.run)?.name as string | undefined;
  const others = props.route.parts.length > 0 ? [...new Set(props.route.parts)].filter(known) : first === undefined ? [] : [first];
  const names = [props.run, ...others];
  const axis = axisOf(props.route.query.get("x") ?? "time");
  const runs = useApis(names.map((name) => `/api/runs/${name}`), live.beat);
  const loaded = useApis(names.map((name) => `/api/runs/${name}/series`), live.beat);
  const configs = useApis(names.map((name) => `/api/runs/${name}/config`));
  if (first === undefined) return <p class="empty">There is no other run to compare with.</p>;
  const choose = <RunChoice run={props.run} runs={props.runs} chosen={others} search={search} onSearch={setSearch} onChange={(next) => (location.hash = link(props.run, "compare", ...next))} />;
  const error = runs.error || loaded.error || configs.error;
  const there = (answers: { data: (Json | null)[] }) => answers.data.every((one) => one !== null);
  if (!there(runs) || !there(loaded))
    return (
      <>
        {choose}
        {error ? <Problem error={error} /> : <Loading />}
      </>
    );
  const common = { names, series: loaded.data as Json[], axis };
  const busy = (name: string) => (rows: Json) => smooth(shareBetween(column(rows, "seconds"), column(rows, name)), 5);
  const share = { min: 0, max: 1, format: (v: number) => percent(v) };
  return (
    <>
      {choose}
      <Numbers names={names} runs={runs.data as Json[]} />
      <div class="filters">
        <AxisChoice value={axis} onChange={(next) => setQuery(props.route, { x: next })} />
      </div>
      <div class="grid">
        <RunsChart {...common} {...share} title="Pass rate of the batch" kind="step" smoothing={3} values={(rows) => column(rows, "batch_pass_rate")} />
        <RunsChart {...common} title="Reward" kind="step" values={(rows) => column(rows, "reward")} />
        <RunsChart {...common} title="Loss" kind="step" values={(rows) => column(rows, "loss")} />
        <RunsChart {...common} title="Entropy in nats" kind="step" values={(rows) => column(rows, "entropy")} />
        <RunsChart {...common} title="KL to the sampler in nats" kind="step" values={(rows) => column(rows, "policy_kl")} />
        <RunsChart {...common} title="Lag in steps" kind="step" min={0} values={(rows) => column(rows, "lag_mean")} />
        {axis !== "step" && <RunsChart {...common} title="Steps" kind="tick" min={0} values={(rows) => column(rows, "steps")} />}
        <RunsChart {...common} title="Tokens per second" kind="tick" min={0} values={(rows) => smooth(rate(rows.time_ms, column(rows, "generated_tokens")), 3)} />
        <RunsChart {...common} {...share} title="Engine busy" kind="tick" values={busy("busy_port_engine")} />
        <RunsChart {...common} {...share} title="Trainer busy" kind="tick" values={busy("busy_port_trainer")} />
      </div>
      {there(configs) && <Differences names={names} values={configs.data.map((one) => one!.values)} />}
    </>
  );
}

function Numbers(props: { names: string[]; runs: Json[] }) {
  const rows: [string, (r: Json) => string][] = [
    ["state", (r) => r.state],
    ["tags", (r) => (r.tags ?? []).join(" ") || "–"],
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
      <div class="scroll" tabIndex={0} role="region" aria-label="Numbers of the runs">
        <table class="plain">
          <thead>
            <tr>
              <th />
              {props.names.map((name, i) => (
                <th key={name} class="num">
                  <i class={`swatch c-${lineOf(i).color}`} /> {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {props.runs.map((run) => (
                  <td key={run.name} class="num">
                    {value(run)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function evalOf(run: Json, name: string): string {
  const found = evaluation(run, name);
  return found ? rateText(found) : "–";
}

// The keys whose values are not the same in all of them.
export function Differences(props: { names: string[]; values: Json[] }) {
  const text = (values: Json, key: string) => (key in values ? JSON.stringify(values[key]) : "–");
  const keys = [...new Set(props.values.flatMap((values) => Object.keys(values)))].sort();
  const differ = keys.filter((key) => new Set(props.values.map((values) => text(values, key))).size > 1);
  return (
    <Panel title="Differences of the configs">
      {differ.length === 0 ? (
        <p class="empty">None.</p>
      ) : (
        <table class="rows">
          <thead>
            <tr>
              <th>Key</th>
              {props.names.map((name) => (
                <th key={name}>{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {differ.map((key) => (
              <tr key={key}>
                <td data-name="Key">
                  <code>{key}</code>
                </td>
                {props.values.map((values, i) => (
                  <td key={props.names[i]} data-name={props.names[i]} class="wide">
                    <code>{text(values, key)}</code>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
