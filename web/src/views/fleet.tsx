// Who works on a run of many processes, as their heartbeats tell.
import { Fragment } from "preact";
import { useState } from "preact/hooks";

import type { Json } from "../api";
import { Chart } from "../chart";
import { dateTime, duration, percent, query, short, words } from "../format";
import { link, useApi, useEvery, useLive } from "../hooks";
import { Badge, Bar, Loading, Pages, Panel, Problem, Stat } from "../parts";
import { column, hasColumn } from "../series";

const STATES = ["here", "leaving", "lost"];
const LIMIT = 100;
const SILENT_S = 5; // heartbeats come every 2 seconds

const ago = (seconds: number) => (seconds < 1.5 ? "now" : `${duration(1000 * Math.round(seconds)).replace(".0 s", " s")} ago`);
const rateText = (rate: number | null, of: string) => (rate === null ? "–" : `${short(rate < 10 ? Math.round(rate * 10) / 10 : Math.round(rate))} ${words(of)}/s`);
const present = (role: Json) => role.here + role.leaving;
const countOf = (fleet: Json, name: string) => (fleet.roles ?? []).reduce((sum: number, role: Json) => sum + role[name], 0);

// "1 lost", or "" where everybody is heard.
export function lostText(fleet: Json | null): string {
  return fleet?.lost_workers ? `${short(fleet.lost_workers)} lost` : "";
}

export function FleetStrip(props: { run: string; fleet: Json }) {
  const { fleet } = props;
  return (
    <section class="panel strip" aria-label="Fleet">
      <a href={link(props.run, "fleet")}>Fleet</a>
      {(fleet.roles ?? []).map((role: Json) => (
        <span key={role.role}>
          {role.role} <strong>{short(present(role))}</strong>
          {role.rate > 0 && <span class="soft"> {rateText(role.rate, role.rate_of)}</span>}
          {role.lost > 0 && <> <Badge text={`${short(role.lost)} lost`} tone="bad" /></>}
        </span>
      ))}
      {!fleet.roles && <span class="soft">{hint(fleet)}</span>}
      {fleet.state === "silent" && <Badge text="Redis does not answer" tone="bad" />}
    </section>
  );
}

// Why there is no list of workers.
function hint(fleet: Json): string {
  if (fleet.state === "none") return "This server has no bus address. To see each worker: tidemill view --bus redis://HOST:PORT/0";
  if (fleet.state === "absent") return "The run is no longer on the bus.";
  return "Redis has not answered yet.";
}

export function Fleet(props: { run: string }) {
  const live = useLive();
  const turns = useEvery(2000);
  const [state, setState] = useState("");
  const [role, setRole] = useState("");
  const [search, setSearch] = useState("");
  const [sort, setSort] = useState("");
  const [offset, setOffset] = useState(0);
  const loaded = useApi(`/api/runs/${props.run}/fleet${query({ state, role, search, sort, offset, limit: LIMIT })}`, turns);
  const series = useApi(`/api/runs/${props.run}/series${query({ prefix: "workers_" })}`, live.beat);
  if (!loaded.data) return loaded.error ? <Problem error={loaded.error} /> : <Loading />;
  const fleet = loaded.data;
  if (!fleet.many) return <p class="empty">This run is one process: its loops are in the overview.</p>;
  const change = (set: (value: string) => void) => (value: string) => {
    setOffset(0);
    set(value);
  };
  return (
    <>
      <Problem error={loaded.error} />
      {fleet.state === "silent" && <Problem error={`Redis does not answer: ${fleet.error}. ${fleet.read_ms ? `The data below is from ${dateTime(fleet.read_ms)}.` : ""}`} />}
      {!fleet.roles ? <p class="empty">{hint(fleet)}</p> : <Roles fleet={fleet} />}
      {fleet.roles && (
        <>
          <div class="chips" role="group" aria-label="States">
            <button type="button" aria-pressed={state === ""} onClick={() => change(setState)("")}>
              all <strong>{short(STATES.reduce((sum, name) => sum + countOf(fleet, name), 0))}</strong>
            </button>
            {STATES.map((name) => (
              <button type="button" key={name} aria-pressed={state === name} onClick={() => change(setState)(name)}>
                {name} <strong>{short(countOf(fleet, name))}</strong>
              </button>
            ))}
          </div>
          <form class="filters" onSubmit={(event) => event.preventDefault()}>
            <label>
              Name or host contains
              <input type="search" value={search} onInput={(e) => change(setSearch)(e.currentTarget.value)} />
            </label>
            <label>
              Role
              <select value={role} onChange={(e) => change(setRole)(e.currentTarget.value)}>
                <option value="">all</option>
                {fleet.roles.map((r: Json) => (
                  <option key={r.role}>{r.role}</option>
                ))}
              </select>
            </label>
            <label>
              Order
              <select value={sort} onChange={(e) => change(setSort)(e.currentTarget.value)}>
                <option value="">by role and name</option>
                <option value="silent">longest silent first</option>
                <option value="idle">least busy first</option>
                <option value="lag">furthest behind first</option>
              </select>
            </label>
          </form>
          <Workers workers={fleet.workers} read={fleet.read_ms} />
          {(fleet.total > LIMIT || offset > 0) && <Pages offset={fleet.offset} limit={LIMIT} total={fleet.total} onMove={setOffset} />}
        </>
      )}
      <div class="grid">
        <WorkersChart ticks={series.data?.tick} />
        {fleet.topics && <Topics topics={fleet.topics} />}
      </div>
    </>
  );
}

function Roles(props: { fleet: Json }) {
  const { fleet } = props;
  const note = (role: Json) =>
    [role.busy !== null && `${percent(role.busy)} busy`, role.rate !== null && rateText(role.rate, role.rate_of), role.leaving > 0 && `${short(role.leaving)} leaving`]
      .filter(Boolean)
      .join(", ");
  return (
    <>
      <p class="verdict" role="status">
        {fleet.lost_workers
          ? `${short(fleet.lost_workers)} of ${short(STATES.reduce((sum, name) => sum + countOf(fleet, name), 0))} processes ${fleet.lost_workers === 1 ? "is" : "are"} lost: no heartbeat for 10 seconds. What ${fleet.lost_workers === 1 ? "it" : "they"} held goes to others when the leases run out.`
          : `${short(countOf(fleet, "here") + countOf(fleet, "leaving"))} processes, none lost.`}
      </p>
      <div class="stats">
        {fleet.roles.map((role: Json) => (
          <Stat key={role.role} name={role.role} value={`${short(present(role))}${role.lost ? ` + ${short(role.lost)} lost` : ""}`} note={note(role)} tone={role.lost ? "bad" : ""} />
        ))}
        <Stat name="Version of the weights" value={fleet.policy_version ? short(fleet.policy_version) : "–"} note={`${short(fleet.lag_max)} behind at most`} />
        <Stat name="Dead letters" value={short(fleet.dead_letters)} note={`${short(fleet.retries)} retries, ${short(fleet.skipped)} skipped`} tone={fleet.dead_letters ? "bad" : ""} />
      </div>
    </>
  );
}

function WorkersChart(props: { ticks: Json }) {
  const { ticks } = props;
  if (!hasColumn(ticks, "workers_rollout")) return null;
  const line = (name: string, color: string, dash = false) => ({ name, values: column(ticks, `workers_${name}`), color, dash });
  return (
    <Chart
      title="Workers over time"
      note="Live workers, and workers lost within the last hour."
      x={ticks.time_ms}
      xKind="time"
      series={[line("rollout", "c1"), line("tools", "c2"), line("reward", "c4"), line("lost", "c3", true)]}
      min={0}
    />
  );
}

function Topics(props: { topics: Json[] }) {
  const used = props.topics.filter((t) => t.ready || t.leased || t.delayed || t.dead);
  const rest = props.topics.length - used.length;
  return (
    <Panel title="Topics">
      <p class="note">
        {used.length === 0 ? "All topics are empty." : "Waiting and leased messages."}
        {used.length > 0 && rest > 0 && ` ${short(rest)} more are empty.`}
      </p>
      {used.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Topics">
          <table class="plain topics">
            <thead>
              <tr>
                <th>Topic</th>
                <th class="num">Waiting</th>
                <th class="num">In work</th>
                <th class="num">Delayed</th>
                <th class="num">Died</th>
                <th class="num">Oldest waits</th>
              </tr>
            </thead>
            <tbody>
              {used.map((topic: Json) => (
                <tr key={topic.topic}>
                  <td>{topic.topic}</td>
                  <td class="num">{short(topic.ready)}</td>
                  <td class="num">{short(topic.leased)}</td>
                  <td class="num">{short(topic.delayed)}</td>
                  <td class="num">{short(topic.dead)}</td>
                  <td class="num">{topic.oldest_ready_s ? duration(1000 * topic.oldest_ready_s) : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function Workers(props: { workers: Json[]; read: number }) {
  const [open, setOpen] = useState("");
  if (props.workers.length === 0) return <p class="empty">Nobody matches.</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Workers">
      <table class="rows workers">
        <thead>
          <tr>
            <th>Process</th>
            <th>Role</th>
            <th>State</th>
            <th class="num">Heard</th>
            <th class="num">Up</th>
            <th>Busy</th>
            <th class="num">Rate</th>
            <th class="num">Weights</th>
            <th>Doing</th>
          </tr>
        </thead>
        <tbody>
          {props.workers.map((worker) => (
            <Fragment key={worker.worker}>
              <Row worker={worker} read={props.read} open={open === worker.worker} onToggle={() => setOpen(open === worker.worker ? "" : worker.worker)} />
              {open === worker.worker && <Numbers worker={worker} />}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row(props: { worker: Json; read: number; open: boolean; onToggle: () => void }) {
  const { worker } = props;
  const lost = worker.state === "lost";
  const silent = !lost && worker.beat_age_s > SILENT_S;
  return (
    <tr class={worker.state}>
      <td data-name="Process">
        <button type="button" class="link" aria-expanded={props.open} onClick={props.onToggle}>
          {worker.worker}
        </button>
      </td>
      <td data-name="Role">{worker.role}</td>
      <td data-name="State">
        <Badge text={worker.state} />
        {silent && <Badge text="silent" tone="warn" />}
      </td>
      <td data-name="Heard" class="num">
        {ago(worker.beat_age_s)}
      </td>
      <td data-name="Up" class="num">
        {lost ? "–" : duration(Math.max(0, props.read - worker.started_ms)).replace(/\.\d s/, " s")}
      </td>
      <td data-name="Busy">
        <Bar share={lost ? null : worker.busy} />
      </td>
      <td data-name="Rate" class="num wide">
        {lost ? "–" : rateText(worker.rate, worker.rate_of)}
      </td>
      <td data-name="Weights" class="num wide">
        {worker.policy_version ? `v${worker.policy_version}${worker.lag && !lost && worker.role !== "learner" ? `, ${short(worker.lag)} behind` : ""}` : "–"}
      </td>
      <td data-name="Doing" class="wide">
        {lost ? `was at: ${worker.doing}` : worker.doing}
      </td>
    </tr>
  );
}

function Numbers(props: { worker: Json }) {
  const { worker } = props;
  const facts: [string, string][] = [
    ["host", worker.host],
    ["process id", String(worker.pid)],
    ["since", dateTime(worker.started_ms)],
    ["program", worker.program],
    ["metrics", worker.endpoint],
    ...Object.entries<number>(worker.numbers).map(([name, value]): [string, string] => [words(name), short(value)]),
  ];
  return (
    <tr class="more">
      <td colSpan={9} class="wide">
        <dl class="numbers">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </td>
    </tr>
  );
}
