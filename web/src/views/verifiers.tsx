import type { Json } from "../api";
import { percent, query, short } from "../format";
import { link, useApi, useLive } from "../hooks";
import { Loading, Panel, Problem, Stat } from "../parts";
import { Chart } from "../chart";
import { column, hasColumn, rate } from "../series";

const last = (ticks: Json, name: string): number => column(ticks, name).reduce<number>((value, next) => next ?? value, 0);

const proofs = (ticks: Json): number => last(ticks, "proofs_proved") + last(ticks, "proofs_refuted") + last(ticks, "proofs_unknown");

export function hasVerifiers(ticks: Json): boolean {
  return hasColumn(ticks, "proofs_proved") && proofs(ticks) > 0;
}

const ms = (micros: number, count: number): number | null => (count > 0 ? micros / 1e3 / count : null);
const shown = (value: number | null): string => (value === null ? "–" : `${value.toPrecision(3)} ms`);

function Confusion(props: { ticks: Json }) {
  const cell = (name: string) => last(props.ticks, `audit_proof_${name}`);
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>The prover said</th>
          <th class="num">Passes its tests</th>
          <th class="num">Fails its tests</th>
        </tr>
      </thead>
      <tbody>
        <tr>
          <td>proved</td>
          <td class="num">{cell("accept_pass")}</td>
          <td class="num">{cell("accept_fail")}</td>
        </tr>
        <tr>
          <td>refuted</td>
          <td class="num">{cell("reject_pass")}</td>
          <td class="num">{cell("reject_fail")}</td>
        </tr>
      </tbody>
    </table>
  );
}

// Audited episodes on which the prover and the tests disagree, newest first.
function Disagreements(props: { run: string; beat: number }) {
  const found = useApi(`/api/runs/${props.run}/faults`, props.beat);
  if (!found.data) return found.error ? <Problem error={found.error} /> : <Loading />;
  const rows: Json[] = found.data.disagreements.filter((row: Json) => row.scorer === "proof").reverse();
  if (rows.length === 0) return <p class="empty">None so far.</p>;
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>Episode</th>
          <th>It said</th>
          <th>Its tests</th>
          <th>Why</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.group}/${row.member}`}>
            <td>
              <a href={link(props.run, "episodes", row.group, row.member)}>{row.task}</a>
            </td>
            <td>{row.comment}</td>
            <td>{row.executed >= 1 ? "pass" : "fail"}</td>
            <td>{row.explanation}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Verifiers(props: { run: string }) {
  const live = useLive();
  const series = useApi(`/api/runs/${props.run}/series${query({ prefix: "proof,graded,audit_proof_" })}`, live.beat);
  if (!series.data) return series.error ? <Problem error={series.error} /> : <Loading />;
  const ticks = series.data.tick;
  if (!hasVerifiers(ticks)) return <p class="empty">This run proves nothing: no answer went to the scorer proof.</p>;
  const value = (name: string) => last(ticks, name);
  const count = proofs(ticks);
  const decided = count - value("proofs_unknown");
  const proof = ms(value("proof_micros"), count);
  const box = ms(value("graded_micros"), value("graded"));
  const audited = ["accept_pass", "accept_fail", "reject_pass", "reject_fail"].reduce((sum, name) => sum + value(`audit_proof_${name}`), 0);
  return (
    <>
      <p class="note">Answers that were proved or refuted without running them, and what execution says of those that were run as well.</p>
      <div class="stats">
        <Stat name="Decided" value={percent(decided / count, 1)} note={`${short(value("proofs_proved"))} proved, ${short(value("proofs_refuted"))} refuted, ${short(value("proofs_unknown"))} unknown`} />
        <Stat name="CPU of a verdict" value={shown(proof)} note={`in a box ${shown(box)}`} />
        <Stat name="Cheaper than a box" value={proof && box ? `${Math.round(box / proof)} ×` : "–"} note={`${short(value("graded"))} answers were run`} />
        <Stat name="Audit" value={value("audit_proof_distrusted") ? "not trusted" : audited > 0 ? "trusted" : "off"} note={audited > 0 ? `${short(audited)} audited; the test stands at ${value("audit_proof_level")} % of an alarm` : "audit.share is 0, or nothing was drawn yet"} tone={value("audit_proof_distrusted") ? "bad" : ""} />
      </div>
      <Panel title="Verdicts">
        <Chart title="Verdicts a second" x={ticks.time_ms} xKind="time" series={["proved", "refuted", "unknown"].map((name, i) => ({ name, values: rate(ticks.time_ms, column(ticks, `proofs_${name}`)), color: `c${i + 1}` }))} min={0} />
      </Panel>
      {audited > 0 && (
        <>
          <Panel title="Audit: the prover against execution">
            <Confusion ticks={ticks} />
          </Panel>
          <Panel title="Disagreements">
            <Disagreements run={props.run} beat={live.beat} />
          </Panel>
        </>
      )}
    </>
  );
}
