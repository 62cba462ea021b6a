import { useState } from "preact/hooks";

import type { Json } from "../api";
import { Chart } from "../chart";
import { percent, query, short } from "../format";
import { link, useApi, useLive } from "../hooks";
import { Badge, Loading, Pages, Problem, Spark } from "../parts";

const STATES = ["solved", "improving", "mixed", "regressed", "unsolved"];
const LIMIT = 100;

export function Tasks(props: { run: string }) {
  const live = useLive();
  const [state, setState] = useState("");
  const [search, setSearch] = useState("");
  const [sort, setSort] = useState("");
  const [purpose, setPurpose] = useState("");
  const [offset, setOffset] = useState(0);
  const [chosen, setChosen] = useState("");
  const tasks = useApi(`/api/runs/${props.run}/tasks${query({ state, search, sort, purpose, offset, limit: LIMIT })}`, live.beat);
  const history = useApi(chosen ? `/api/runs/${props.run}/pass_rate${query({ task: chosen, purpose, points: 30 })}` : null, live.beat);
  if (!tasks.data) return tasks.error ? <Problem error={tasks.error} /> : <Loading />;
  const points = history.data?.points ?? [];
  const change = <T,>(set: (value: T) => void) => (value: T) => {
    setOffset(0);
    set(value);
  };
  return (
    <>
      <div class="chips" role="group" aria-label="Tasks by trend">
        <button type="button" aria-pressed={state === ""} onClick={() => change(setState)("")}>
          all
        </button>
        {STATES.map((name) => (
          <button type="button" key={name} aria-pressed={state === name} onClick={() => change(setState)(name)}>
            {name} <strong>{short(tasks.data.by_state[name] ?? 0)}</strong>
          </button>
        ))}
      </div>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Name has
          <input type="search" value={search} onInput={(e) => change(setSearch)(e.currentTarget.value)} />
        </label>
        <label>
          Order
          <select value={sort} onChange={(e) => change(setSort)(e.currentTarget.value)}>
            <option value="">by name</option>
            <option value="worst">worst first</option>
            <option value="best">best first</option>
            <option value="change">most lost first</option>
          </select>
        </label>
        <label>
          For
          <select value={purpose} onChange={(e) => change(setPurpose)(e.currentTarget.value)}>
            <option value="">training</option>
            <option value="eval">evaluation</option>
          </select>
        </label>
      </form>
      {chosen && (
        <Chart
          title={`Pass rate of ${chosen}`}
          x={points.map((p: Json) => p.from_ms)}
          xKind="time"
          series={[
            { name: "high", values: points.map((p: Json) => p.high), color: "c1", band: "high" },
            { name: "low", values: points.map((p: Json) => p.low), color: "c1", band: "low" },
            { name: "pass rate", values: points.map((p: Json) => p.pass_rate), color: "c1" },
          ]}
          min={0}
          max={1}
          format={(v) => percent(v)}
        />
      )}
      <Problem error={tasks.error} />
      {tasks.data.tasks.length === 0 ? (
        <p class="empty">No task matches.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Tasks">
          <table class="rows">
            <thead>
              <tr>
                <th>Task</th>
                <th>State</th>
                <th class="num" title="Of all scored attempts, whichever version made them; “Earlier” and “Last third” tell them apart">Pass rate</th>
                <th>Over time</th>
                <th class="num">Earlier</th>
                <th class="num">Last third</th>
                <th class="num">Mean reward</th>
                <th class="num">Episodes</th>
              </tr>
            </thead>
            <tbody>
              {tasks.data.tasks.map((task: Json) => (
                <tr key={task.task}>
                  <td data-name="Task">
                    <button type="button" class="link" onClick={() => setChosen(task.task)} aria-label={`Show ${task.task} over time`}>
                      {task.task}
                    </button>
                  </td>
                  <td data-name="State">
                    <Badge text={task.state} />
                  </td>
                  <td data-name="Pass rate" class="num">
                    {percent(task.pass_rate)}
                  </td>
                  <td data-name="Over time">
                    <Spark values={task.rates} label={`from ${percent(task.early)} to ${percent(task.late)}`} />
                  </td>
                  <td data-name="Earlier" class="num">
                    {percent(task.early)}
                  </td>
                  <td data-name="Last third" class="num">
                    {percent(task.late)}
                  </td>
                  <td data-name="Mean reward" class="num">
                    {task.mean_reward.toFixed(2)}
                  </td>
                  <td data-name="Episodes" class="num">
                    <a href={`${link(props.run, "episodes")}${query({ task: task.task })}`}>{short(task.scored)}</a>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pages offset={tasks.data.offset} limit={LIMIT} total={tasks.data.total} onMove={setOffset} />
    </>
  );
}
