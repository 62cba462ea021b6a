import { useEffect, useState } from "preact/hooks";

import { get, isExport, type Json } from "../api";
import { dateTime, duration, percent, query, short } from "../format";
import { link, useApi, useLive, type Route } from "../hooks";
import { Badge, Field, Loading, Pages, Panel, Problem } from "../parts";
import { Transcript, TokenColours } from "./transcript";

const ENDS = ["submitted", "max_turns", "max_tokens", "context", "malformed", "given_up"];
const FATES = ["stored", "ready", "used", "stale", "too_old", "zero_variance", "evicted"];
const LIMIT = 50;

export function Episodes(props: { run: string; route: Route }) {
  const [group, member] = props.route.parts;
  if (group !== undefined && member !== undefined) return <Episode run={props.run} group={group} member={member} />;
  return <List key={props.route.query.toString()} run={props.run} initial={props.route.query} />;
}

const FIELDS = ["task", "purpose", "solved", "end", "fate", "reward_min", "reward_max", "version", "lag_min", "sort"] as const;
type Filter = Partial<Record<(typeof FIELDS)[number], string>>;

function List(props: { run: string; initial: URLSearchParams }) {
  const live = useLive();
  const [filter, setFilter] = useState<Filter>(() => Object.fromEntries(FIELDS.map((name) => [name, props.initial.get(name) ?? ""])));
  const [offset, setOffset] = useState(0);
  const fresh = offset === 0 && live.state === "running" ? live.beat : 0;
  const page = useApi(`/api/runs/${props.run}/episodes${query({ ...filter, offset, limit: LIMIT })}`, fresh);
  const [typed, setTyped] = useState("");
  const [text, setText] = useState(() => props.initial.get("text") ?? "");
  const tasks = useApi(typed.length > 0 ? `/api/runs/${props.run}/tasks${query({ search: typed, limit: 20 })}` : null);
  const set = (name: keyof Filter, value: string) => {
    setOffset(0);
    setFilter({ ...filter, [name]: value });
  };
  const choose = (name: keyof Filter, label: string, all: string, values: string[]) => (
    <label>
      {label}
      <select value={filter[name]} onChange={(e) => set(name, e.currentTarget.value)}>
        <option value="">{all}</option>
        {values.map((value) => (
          <option key={value} value={value}>
            {value.replace(/_/g, " ")}
          </option>
        ))}
      </select>
    </label>
  );
  const number = (name: keyof Filter, label: string, step: string) => (
    <label class="narrow">
      {label}
      <Field type="number" step={step} value={filter[name] ?? ""} onDone={(value) => set(name, value)} />
    </label>
  );
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()} aria-label="Filter episodes">
        <label>
          Task
          <Field type="search" list="task-names" value={filter.task ?? ""} placeholder="its whole name" onTyped={setTyped} onDone={(value) => set("task", value)} />
          <datalist id="task-names">
            {(tasks.data?.tasks ?? []).map((task: Json) => (
              <option key={task.task} value={task.task} />
            ))}
          </datalist>
        </label>
        <label>
          Text has
          <Field type="search" value={text} placeholder="of the whole transcript" onDone={setText} />
        </label>
        {choose("purpose", "For", "training and evaluation", ["train", "eval"])}
        <label>
          Result
          <select value={filter.solved} onChange={(e) => set("solved", e.currentTarget.value)}>
            <option value="">any</option>
            <option value="true">solved</option>
            <option value="false">not solved</option>
          </select>
        </label>
        {choose("end", "Ended by", "anything", ENDS)}
        {choose("fate", "Fate", "any", FATES)}
        {number("reward_min", "Reward from", "0.05")}
        {number("reward_max", "to", "0.05")}
        {number("version", "Version", "1")}
        {number("lag_min", "Lag at least", "1")}
        {choose("sort", "Order", "newest first", ["oldest", "best", "worst", "tokens", "turns", "slowest"])}
      </form>
      {text && !isExport && <Found key={JSON.stringify([filter, text])} run={props.run} text={text} filter={filter} />}
      <Problem error={page.error} />
      {text ? null : !page.data ? page.error ? null : <Loading /> : <Table run={props.run} rows={page.data.episodes} />}
      {page.data && !text && <Pages offset={page.data.offset ?? 0} limit={LIMIT} total={page.data.total} onMove={setOffset} />}
    </>
  );
}

// Episodes whose transcripts have a text. The server searches in parts; enough are found when a page is full.
function Found(props: { run: string; text: string; filter: Filter }) {
  const [found, setFound] = useState<{ matches: Json[]; searched: number; left: number; next: number | null; error: string }>({ matches: [], searched: 0, left: 0, next: 0, error: "" });
  const [wanted, setWanted] = useState(LIMIT);
  const done = found.next === null || found.error !== "";
  useEffect(() => {
    if (done || found.matches.length >= wanted) return;
    const abort = new AbortController();
    const { sort, ...filter } = props.filter;
    get(`/api/runs/${props.run}/search${query({ ...filter, text: props.text, before_seq: found.next || undefined })}`, abort.signal)
      .then((part) => setFound((old) => ({ matches: [...old.matches, ...part.matches], searched: old.searched + part.searched, left: part.left, next: part.next, error: "" })))
      .catch((error) => abort.signal.aborted || setFound((old) => ({ ...old, error: error.message })));
    return () => abort.abort();
  }, [found.searched, wanted, done]);
  return (
    <>
      <Problem error={found.error} />
      <p class="note" role="status">
        {found.matches.length.toLocaleString("en-US")} found in {found.searched.toLocaleString("en-US")} episodes{!done && `, ${found.left.toLocaleString("en-US")} to search`}. The newest first.
      </p>
      <div class="found">
        {found.matches.map((row) => (
          <section key={row.seq} class="panel">
            <p>
              <a href={link(props.run, "episodes", row.group, row.member)}>{row.task}</a> <span class="soft">{row.found.where}</span>{" "}
              {row.scored && <Badge text={row.solved ? "solved" : "not solved"} tone={row.solved ? "good" : "bad"} />}
            </p>
            <pre class="code">
              {row.found.before}
              <mark>{row.found.hit}</mark>
              {row.found.after}
            </pre>
          </section>
        ))}
      </div>
      {!done && found.matches.length >= wanted && (
        <button type="button" onClick={() => setWanted(wanted + LIMIT)}>
          Search on
        </button>
      )}
    </>
  );
}

function versions(row: Json): string {
  if (row.min_version === null) return "–";
  return row.min_version === row.max_version ? String(row.min_version) : `${row.min_version}–${row.max_version}`;
}

function Table(props: { run: string; rows: Json[] }) {
  if (props.rows.length === 0) return <p class="empty">No episode matches.</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Episodes">
      <table class="rows">
        <thead>
          <tr>
            <th>Task</th>
            <th>Group</th>
            <th class="num">Reward</th>
            <th>Tests</th>
            <th>Ended by</th>
            <th>Fate</th>
            <th class="num">Turns</th>
            <th class="num">Tokens</th>
            <th class="num">Version</th>
            <th class="num">Took</th>
            <th>Finished</th>
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={row.seq}>
              <td data-name="Task">
                <a href={link(props.run, "episodes", row.group, row.member)}>{row.task}</a>
                {row.purpose === "eval" && <Badge text={row.eval_name || "eval"} />}
              </td>
              <td data-name="Group">
                <span>
                  <a href={link(props.run, "groups", row.group)} aria-label={`Group ${row.group} side by side`}>
                    {row.group}
                  </a>
                  <span class="soft">/{row.member}</span>
                </span>
              </td>
              <td data-name="Reward" class="num">
                {row.reward === null ? "–" : row.reward.toFixed(2)}
              </td>
              <td data-name="Tests">
                <Badge text={`${row.tests_passed}/${row.tests_total}`} tone={row.solved ? "good" : row.scored ? "bad" : ""} />
              </td>
              <td data-name="Ended by">
                <Badge text={row.end} />
              </td>
              <td data-name="Fate">{row.fate.replace(/_/g, " ")}</td>
              <td data-name="Turns" class="num">
                {row.turns}
              </td>
              <td data-name="Tokens" class="num">
                {short(row.tokens)}
              </td>
              <td data-name="Version" class="num">
                {versions(row)}
              </td>
              <td data-name="Took" class="num">
                {duration(row.finished_ms - row.started_ms)}
              </td>
              <td data-name="Finished" class="soft wide">
                {dateTime(row.finished_ms)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Episode(props: { run: string; group: string; member: string }) {
  const episode = useApi(`/api/runs/${props.run}/episodes/${props.group}/${props.member}`);
  const [colours, setColours] = useState("logprob");
  if (!episode.data) return episode.error ? <Problem error={episode.error} /> : <Loading />;
  const e = episode.data;
  return (
    <>
      <p class="crumbs">
        <a href={link(props.run, "episodes")}>Episodes</a> / <a href={link(props.run, "groups", e.group)}>group {e.group}</a> / member {e.member}
      </p>
      <h2 class="page-title">{e.task}</h2>
      <TokenColours value={colours} onChange={setColours} versions={[e.min_version, e.max_version]} />
      <Transcript run={props.run} episode={e} colours={colours} />
    </>
  );
}

export function Group(props: { run: string; group: string }) {
  const group = useApi(`/api/runs/${props.run}/groups/${props.group}`);
  const [colours, setColours] = useState("plain");
  if (!group.data) return group.error ? <Problem error={group.error} /> : <Loading />;
  const g = group.data;
  const solved = g.episodes.filter((e: Json) => e.solved).length;
  const known = g.episodes.filter((e: Json) => e.min_version !== null);
  const range: [number, number] = [Math.min(...known.map((e: Json) => e.min_version)), Math.max(...known.map((e: Json) => e.max_version))];
  return (
    <>
      <p class="crumbs">
        <a href={link(props.run, "episodes")}>Episodes</a> / group {g.group}
      </p>
      <h2 class="page-title">{g.task}</h2>
      <p class="note">
        {g.episodes.length} of {g.members} attempts are here, {solved} solved it ({percent(solved / Math.max(1, g.episodes.length))}).
        {g.reason && ` Dropped: ${g.reason.replace(/_/g, " ")}.`}
      </p>
      <TokenColours value={colours} onChange={setColours} versions={range} />
      <div class="side-by-side" tabIndex={0} role="region" aria-label="The group's episodes side by side">
        {g.episodes.map((e: Json) => (
          <Member key={e.member} run={props.run} row={e} colours={colours} base={range[0]} />
        ))}
      </div>
    </>
  );
}

function Member(props: { run: string; row: Json; colours: string; base: number }) {
  const episode = useApi(`/api/runs/${props.run}/episodes/${props.row.group}/${props.row.member}`);
  return (
    <Panel title={`Member ${props.row.member}`} actions={<a href={link(props.run, "episodes", props.row.group, props.row.member)}>open</a>} class="member">
      {episode.data ? <Transcript run={props.run} episode={episode.data} colours={props.colours} base={props.base} compact /> : episode.error ? <Problem error={episode.error} /> : <Loading />}
    </Panel>
  );
}
