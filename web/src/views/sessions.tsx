// The gateway's sessions: the list as it grows, and one as a tree of turns with its tokens, signals and what became of it.
import { useState } from "preact/hooks";

import type { Json } from "../api";
import { clock, dateTime, query, short } from "../format";
import { link, useApi, useEvery, type Route } from "../hooks";
import { Badge, Loading, Panel, Problem } from "../parts";
import { Guards } from "./release";
import { TokenColours, Tokens } from "./transcript";

const LIMIT = 100;

export function Sessions(props: { run: string; route: Route }) {
  const chosen = props.route.parts[0];
  return chosen === undefined ? <SessionList run={props.run} /> : <SessionTree run={props.run} session={chosen} />;
}

function score(value: number | null): string {
  return value === null ? "–" : `${value > 0 ? "+" : ""}${value.toFixed(2)}`;
}

function training(session: Json): string {
  if (!session.trainable) return "consent";
  if (session.closed_ms === 0) return "open";
  if (session.used > 0) return "trained";
  return session.signals > 0 ? "waits" : "no signal";
}

function tone(state: string): string {
  if (state === "trained") return "good";
  return ["open", "waits", "waits for a step"].includes(state) ? "" : "warn";
}

function SessionList(props: { run: string }) {
  const [open, setOpen] = useState(false);
  const list = useApi(`/api/runs/${props.run}/sessions${query({ limit: LIMIT, open: open ? "true" : "" })}`, useEvery(2000));
  if (!list.data) return list.error ? <Problem error={list.error} /> : <Loading />;
  return (
    <>
      <Guards run={props.run} />
      <div class="chips" role="group" aria-label="Which sessions">
        <button type="button" aria-pressed={!open} onClick={() => setOpen(false)}>
          newest
        </button>
        <button type="button" aria-pressed={open} onClick={() => setOpen(true)}>
          open
        </button>
      </div>
      <Problem error={list.error} />
      {list.data.sessions.length === 0 ? (
        <p class="empty">No session.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Sessions">
          <table class="rows">
            <thead>
              <tr>
                <th>Session</th>
                <th>Tenant</th>
                <th>Agent</th>
                <th>Started</th>
                <th class="num">Questions</th>
                <th class="num">Answers</th>
                <th class="num">Tokens</th>
                <th class="num">Signals</th>
                <th class="num">Reward</th>
                <th>Training</th>
                <th>State</th>
              </tr>
            </thead>
            <tbody>
              {list.data.sessions.map((s: Json) => (
                <tr key={s.session}>
                  <td data-name="Session">
                    <a href={link(props.run, "sessions", s.session)}>{s.name || `s${s.session}`}</a>
                  </td>
                  <td data-name="Tenant">{s.tenant}</td>
                  <td data-name="Agent">{s.agent}</td>
                  <td data-name="Started">{dateTime(s.started_ms)}</td>
                  <td data-name="Questions" class="num">
                    {s.questions}
                  </td>
                  <td data-name="Answers" class="num">
                    {s.turns}
                  </td>
                  <td data-name="Tokens" class="num">
                    {short(s.tokens)}
                  </td>
                  <td data-name="Signals" class="num">
                    {s.signals}
                  </td>
                  <td data-name="Reward" class="num">
                    {score(s.reward)}
                  </td>
                  <td data-name="Training">
                    <Badge text={training(s)} tone={tone(training(s))} />
                  </td>
                  <td data-name="State">{s.closed_ms === 0 ? <Badge text="open" tone="good" /> : s.close_reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

// How deep a turn stands in the tree; a turn that goes on from the newest stays in its column.
function columns(tree: Json[]): Map<number, number> {
  const column = new Map<number, number>();
  const continued = new Set<number>();
  for (const turn of tree) {
    const parent = column.get(turn.parent);
    const first = parent !== undefined && !continued.has(turn.parent);
    column.set(turn.turn, parent === undefined ? 0 : first ? parent : parent + 1);
    continued.add(turn.parent);
  }
  return column;
}

function Signal(props: { signal: Json }) {
  const s = props.signal;
  return (
    <p class="signal">
      <Badge text={score(s.score)} tone={s.score > 0 ? "good" : s.score < 0 ? "bad" : ""} /> {s.source}
      {s.by && ` ${s.by}`}
      {s.span && `, characters ${s.span[0]} to ${s.span[1]}`}
      {s.revision > 1 && `, revised ${s.revision - 1} times`}
      <span class="soft"> {clock(s.at_ms)}</span>
      {s.text && <q>{s.text}</q>}
    </p>
  );
}

function SessionTree(props: { run: string; session: string }) {
  const [colours, setColours] = useState("version");
  const loaded = useApi(`/api/runs/${props.run}/sessions/${props.session}`, useEvery(2000));
  if (!loaded.data) return loaded.error ? <Problem error={loaded.error} /> : <Loading />;
  const s = loaded.data;
  const column = columns(s.tree);
  const versions: number[] = s.tree.flatMap((t: Json) => t.versions.map((v: Json) => v.version));
  const low = versions.length ? Math.min(...versions) : null;
  const high = versions.length ? Math.max(...versions) : null;
  return (
    <>
      <p>
        <a href={link(props.run, "sessions")}>← Sessions</a>
      </p>
      <Problem error={loaded.error || s.damage} />
      <Panel title={s.name ? `Session ${s.name}` : `Session s${s.session}`}>
        <p class="note">
          {s.tenant}, {s.agent}, class {s.class || "–"}; {s.questions} questions, {s.turns} answers, {short(s.tokens)} tokens, {s.branches} branches; reward{" "}
          {score(s.reward)}; {s.closed_ms === 0 ? "open" : `closed: ${s.close_reason}`}
        </p>
        {s.said.filter((one: Json) => one.turn === 0).map((one: Json, i: number) => (
          <Signal key={i} signal={one} />
        ))}
        <TokenColours value={colours} onChange={setColours} versions={[low, high]} />
      </Panel>
      {s.tree.map((turn: Json) => (
        <section key={turn.turn} class="panel turn branch" style={{ marginLeft: `${Math.min(4, column.get(turn.turn) ?? 0) * 4}%` }}>
          <header>
            <h2>
              Answer {turn.turn}
              {turn.parent > 0 && <span class="soft"> after {turn.parent}</span>}
              {(column.get(turn.turn) ?? 0) > 0 && <span class="soft"> (branch)</span>}
            </h2>
            <span class="actions">
              <Badge text={turn.state} tone={tone(turn.state)} />
              {turn.step > 0 && <span class="soft"> step {turn.step}</span>}
            </span>
          </header>
          {turn.messages.map((message: Json, i: number) => (
            <p key={i} class="said">
              <strong>{message.role}</strong> {message.text}
            </p>
          ))}
          <Tokens turn={turn} colours={colours} base={low ?? 0} />
          <p class="soft">
            {turn.tokens_total} tokens behind {turn.prompt_tokens} of the prompt, temperature {turn.temperature}, question {turn.question}
            {turn.choices > 1 && `, choice ${turn.choice + 1} of ${turn.choices}`}
            {turn.cut && ", cut"}
            {turn.side && `, ${turn.side}`}
            {turn.trajectory && `, in ${turn.trajectory}`}
          </p>
          {s.said.filter((one: Json) => one.turn === turn.turn).map((one: Json, i: number) => (
            <Signal key={i} signal={one} />
          ))}
        </section>
      ))}
    </>
  );
}
