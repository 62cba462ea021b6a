import type { Json } from "../api";
import { dateTime } from "../format";
import { useApi, useLive } from "../hooks";
import { Loading, Panel, Problem, Stat } from "../parts";

const rate = (value: number | null | undefined) => (value === null || value === undefined ? "not evaluated" : `pass rate ${value.toFixed(3)}`);

export function Release(props: { run: string }) {
  const live = useLive();
  const answer = useApi(`/api/runs/${props.run}/release`, live.beat);
  if (!answer.data) return answer.error ? <Problem error={answer.error} /> : <Loading />;
  const r = answer.data;
  if (!r.released) return <p class="empty">This run serves the newest version: live.release is off.</p>;
  const events: Json[] = [...r.events].reverse();
  return (
    <>
      <p class="note">Which version answers clients. New weights pass a held-out evaluation and a canary before everybody gets them.</p>
      <div class="stats">
        <Stat name="Released" value={`version ${r.released.version}`} note={rate(r.released.pass_rate)} />
        <Stat name="Candidate" value={r.candidate ? `version ${r.candidate.version}` : "none"} note={r.candidate ? `in the ${r.candidate.stage}, ${rate(r.candidate.pass_rate)}` : "waiting for the next evaluation"} />
        <Stat name="Before" value={r.previous ? `version ${r.previous.version}` : "not held"} note="what a rollback goes back to" />
        <Stat name="Gate failures" value={String(r.gate_failures)} note="in a row" tone={r.gate_failures ? "warn" : ""} />
        <Stat name="Alarms" value={String(r.alarms.length)} note={r.alarms[0] ?? ""} tone={r.alarms.length ? "bad" : ""} />
      </div>
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
