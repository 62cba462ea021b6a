import type { Json } from "../api";
import { dateTime } from "../format";
import { useApi, useLive } from "../hooks";
import { Loading, Panel, Problem, Stat } from "../parts";

const rate = (value: number | null | undefined) => (value === null || value === undefined ? "not evaluated" : `pass rate ${value.toFixed(3)}`);

// Alarms and quarantine of a run that serves; nothing where all is well.
export function Guards(props: { run: string }) {
  const live = useLive();
  const g = useApi(`/api/runs/${props.run}/guards`, live.beat).data;
  if (!g || !g.alarms) return null;
  const rows: Json[] = [
    ...g.alarms.map((a: Json) => ({ what: "alarm", name: a.name, why: a.why })),
    ...(g.quarantine?.tenants ?? []).map((t: Json) => ({ what: "quarantine", name: `tenant ${t.tenant}`, why: `${t.why}; ${t.sessions} sessions held` })),
    ...(g.quarantine?.sessions ?? []).map((s: Json) => ({ what: "quarantine", name: `session ${s.session} of ${s.tenant}`, why: s.why })),
  ];
  if (!rows.length) return null;
  return (
    <Panel title="Alarms and quarantine">
      <table class="plain">
        <tbody>
          {rows.slice(0, 50).map((row, index) => (
            <tr key={index}>
              <td>{row.what}</td>
              <td>{row.name}</td>
              <td>{row.why}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > 50 ? <p class="note">and {rows.length - 50} more</p> : null}
    </Panel>
  );
}

export function Release(props: { run: string }) {
  const live = useLive();
  const answer = useApi(`/api/runs/${props.run}/release`, live.beat);
  if (!answer.data) return answer.error ? <Problem error={answer.error} /> : <Loading />;
  const r = answer.data;
  if (!r.released)
    return (
      <>
        <p class="empty">This run serves the newest version: live.release is off.</p>
        <Guards run={props.run} />
      </>
    );
  const events: Json[] = [...r.events].reverse();
  return (
    <>
      <p class="note">Which version answers clients. New weights pass a held-out evaluation and a canary before everybody gets them.</p>
      <div class="stats">
        <Stat name="Released" value={`version ${r.released.version}`} note={rate(r.released.pass_rate)} />
        <Stat name="Candidate" value={r.candidate ? `version ${r.candidate.version}` : "none"} note={r.candidate ? `in the ${r.candidate.stage}, ${rate(r.candidate.pass_rate)}` : "waiting for the next evaluation"} />
        <Stat name="Before" value={r.previous ? `version ${r.previous.version}` : "not held"} note="what a rollback goes back to" />
        <Stat name="Gate failures" value={String(r.gate_failures)} note="in a row" tone={r.gate_failures ? "warn" : ""} />
      </div>
      <Guards run={props.run} />
      <Panel title="What happened">
        <table class="plain">
          <thead>
            <tr>
              <th>When</th>
              <th>What</th>
              <th class="num">Version</th>
              <th>Why</th>
            </tr>
          </thead>
          <tbody>
            {events.map((event, index) => (
              <tr key={index}>
                <td>{dateTime(event.at_ms)}</td>
                <td>{event.what}</td>
                <td class="num">{event.version || "–"}</td>
                <td>{event.why}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Panel>
    </>
  );
}
