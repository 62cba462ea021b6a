// What a run has learned as cases: when, what showing them was worth, how the bank grew and what it forgot.
import { useEffect, useState } from "preact/hooks";

import { isExport, type Json } from "../api";
import { Chart } from "../chart";
import { Code } from "../code";
import { dateTime, percent, query, short } from "../format";
import { link, useApi, useLive, type Route } from "../hooks";
import { Badge, Loading, Panel, Problem, Stat } from "../parts";

const SORTS = [
  ["newest", "newest"],
  ["best", "helped most"],
  ["worst", "misled most"],
  ["shown", "shown most"],
];

function worth(one: Json): string {
  const sign = (value: number) => `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(0)}`;
  return one.worth_half === undefined ? sign(one.worth) : `${sign(one.worth)} (${sign(one.worth - one.worth_half)} to ${sign(one.worth + one.worth_half)})`;
}

function oneLine(text: string | undefined): string {
  return (text ?? "").replace(/\s+/g, " ").trim();
}

export function Memory(props: { run: string; route: Route }) {
  const chosen = props.route.parts[0];
  return chosen === undefined ? <Bank run={props.run} /> : <CaseDetail run={props.run} number={chosen} />;
}

function CaseRows(props: { run: string; cases: Json[]; gone?: boolean }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.gone ? "Forgotten cases" : "Cases"}>
      <table class="rows">
        <thead>
          <tr>
            <th>Case</th>
            <th>Verdict</th>
            <th>Learned</th>
            <th>Scope</th>
            <th>Task</th>
            <th>Answer</th>
            {!props.gone && <th class="num">Copies</th>}
            {!props.gone && <th class="num">Shown</th>}
            {!props.gone && <th class="num">Passed then</th>}
            <th class="num">{props.gone ? "Worth then, points" : "Worth in points (95 %)"}</th>
            {props.gone && <th>Forgotten</th>}
          </tr>
        </thead>
        <tbody>
          {props.cases.map((one) => (
            <tr key={one.number}>
              <td data-name="Case">
                <a href={link(props.run, "memory", one.number)}>#{one.number}</a>
              </td>
              <td data-name="Verdict">
                {one.solved === undefined ? "erased" : <Badge text={one.solved ? "right" : "failed"} tone={one.solved ? "good" : "bad"} />}
                {one.outdated && <Badge text="outdated" tone="warn" />}
              </td>
              <td data-name="Learned">{one.at_ms ? dateTime(one.at_ms) : "–"}</td>
              <td data-name="Scope">{one.scope}</td>
              <td data-name="Task" class="wide">
                {oneLine(one.prompt)}
              </td>
              <td data-name="Answer" class="wide">
                {oneLine(one.answer)}
              </td>
              {!props.gone && (
                <td data-name="Copies" class="num">
                  {one.copies}
                </td>
              )}
              {!props.gone && (
                <td data-name="Shown" class="num">
                  {one.shown}
                </td>
              )}
              {!props.gone && (
                <td data-name="Passed then" class="num">
                  {one.shown > 0 ? percent(one.shown_solved / one.shown) : "–"}
                </td>
              )}
              <td data-name="Worth" class="num">
                {worth(one)}
              </td>
              {props.gone && <td data-name="Forgotten">{dateTime(one.forgotten_ms)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Bank(props: { run: string }) {
  const live = useLive();
  const [again, setAgain] = useState(0);
  const [sort, setSort] = useState("newest");
  const [scope, setScope] = useState("");
  const memory = useApi(`/api/runs/${props.run}/memory${query({ sort, scope })}`, live.beat + again);
  useEffect(() => {
    // A large bank is read a little at a time.
    if (!memory.data || memory.data.complete) return;
    const timer = setTimeout(() => setAgain((n) => n + 1), 300);
    return () => clearTimeout(timer);
  }, [memory.data]);
  if (!memory.data) return memory.error ? <p class="empty">{memory.error}</p> : <Loading />;
  const m = memory.data;
  return (
    <>
      <p class="note">
        Episodes kept as cases and shown to later episodes. A case is worth what it added to the reward of those it was shown to, against others of the same
        group, beyond what its kind is worth.
      </p>
      {!m.complete && (
        <p class="note" role="status">
          Read {short(m.learned)} episodes so far.
        </p>
      )}
      <Problem error={memory.error} />
      <div class="stats">
        <Stat name="Cases" value={short(m.cases)} note="shown to episodes" />
        <Stat name="Episodes learned" value={short(m.learned)} note={`${short(m.merged)} merged into a case that was there`} />
        <Stat name="Forgotten" value={short(m.forgotten)} note="over memory.capacity" />
      </div>
      <Panel title="Growth">
        <Chart title="Cases in the bank" x={m.growth.at_ms} xKind="time" series={[{ name: "cases", values: m.growth.cases, color: "c1" }, { name: "episodes learned", values: m.growth.learned, color: "c2" }, { name: "forgotten", values: m.growth.forgotten, color: "c3" }]} min={0} />
      </Panel>
      <Panel title="Cases">
        <div class="chips" role="group" aria-label="Order of the cases">
          {SORTS.map(([name, label]) => (
            <button key={name} type="button" aria-pressed={sort === name} onClick={() => setSort(name)}>
              {label}
            </button>
          ))}
          {m.scopes.length > 1 && (
            <label>
              <span class="hidden">Scope</span>
              <select value={scope} onChange={(event) => setScope(event.currentTarget.value)}>
                <option value="">every scope</option>
                {m.scopes.map((one: Json) => (
                  <option key={one.scope} value={one.scope}>
                    {one.scope || "no scope"} ({one.cases})
                  </option>
                ))}
              </select>
            </label>
          )}
        </div>
        {m.list.length === 0 ? <p class="empty">No case yet.</p> : <CaseRows run={props.run} cases={m.list} />}
      </Panel>
      {m.gone.length > 0 && (
        <Panel title="Forgotten last">
          <CaseRows run={props.run} cases={m.gone} gone />
        </Panel>
      )}
    </>
  );
}

export function ShownCases(props: { run: string; cases: number[] }) {
  if (props.cases.length === 0) return null;
  return (
    <p class="note">
      Shown cases, the one nearest to the task first:{" "}
      {props.cases.map((number) => (
        <span key={number}>{isExport ? `#${number}` : <a href={link(props.run, "memory", number)}>#{number}</a>} </span>
      ))}
    </p>
  );
}

function CaseDetail(props: { run: string; number: string }) {
  const live = useLive();
  const loaded = useApi(`/api/runs/${props.run}/memory/${encodeURIComponent(props.number)}`, live.beat);
  if (!loaded.data) return loaded.error ? <Problem error={loaded.error} /> : <Loading />;
  const one = loaded.data;
  return (
    <>
      <p>
        <a href={link(props.run, "memory")}>All cases</a>
      </p>
      <Panel title={`Case ${one.number}`}>
        <p>
          <Badge text={one.solved ? "right" : "failed"} tone={one.solved ? "good" : "bad"} /> {one.outdated && <Badge text="outdated" tone="warn" />}{" "}
          {!one.in_bank && <Badge text="not shown any more" tone="warn" />} learned {dateTime(one.at_ms)} from{" "}
          <a href={link(props.run, "groups", one.group)}>
            group {one.group}, member {one.member}
          </a>{" "}
          of task {one.task}
          {one.scope && `, scope ${one.scope}`}
        </p>
        {one.in_bank && (
          <p class="note">
            {one.copies} {one.copies === 1 ? "copy" : "copies"}, shown {one.shown} times, of which {one.shown_solved} passed. Worth in points (95 %): {worth(one)}.
          </p>
        )}
        <ShownCases run={props.run} cases={one.shown_cases} />
        <h3>Task</h3>
        <pre class="code">{one.prompt}</pre>
        <h3>Answer</h3>
        <Code text={one.answer} />
        {one.tools.length > 0 && <h3>What the tools said</h3>}
        {one.tools.map((tool: Json, i: number) => (
          <div class="call" key={i}>
            <p>
              <strong>{tool.tool}</strong> <Badge text={tool.outcome} /> <span class="soft">turn {tool.turn + 1}</span> {tool.arguments}
            </p>
            {tool.text && <pre class="code result">{tool.text}</pre>}
          </div>
        ))}
      </Panel>
    </>
  );
}
