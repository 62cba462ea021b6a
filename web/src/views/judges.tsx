import type { Json } from "../api";
import { percent, query, short } from "../format";
import { useApi, useLive } from "../hooks";
import { Loading, Panel, Problem, Stat } from "../parts";
import { Chart } from "../chart";
import { column, hasColumn, rate } from "../series";

const last = (ticks: Json, name: string): number => column(ticks, name).reduce<number>((value, next) => next ?? value, 0);

// Scorers that are audited, by their columns.
const audited = (ticks: Json): string[] =>
  Object.keys(ticks?.columns ?? {})
    .map((name) => /^audit_(.+)_accept_pass$/.exec(name)?.[1] ?? "")
    .filter(Boolean);

// Wilson's 95 % interval.
function interval(right: number, count: number): string {
  if (count === 0) return "–";
  const z = 1.96;
  const p = right / count;
  const middle = p + (z * z) / (2 * count);
  const half = z * Math.sqrt((p * (1 - p)) / count + (z * z) / (4 * count * count));
  const all = 1 + (z * z) / count;
  return `${percent(p, 1)} (${percent((middle - half) / all, 1)} to ${percent((middle + half) / all, 1)})`;
}

export function hasJudges(ticks: Json): boolean {
  return hasColumn(ticks, "judged") || audited(ticks).length > 0;
}

function AuditRow(props: { scorer: string; ticks: Json }) {
  const cell = (name: string) => last(props.ticks, `audit_${props.scorer}_${name}`);
  const accepted = cell("accept_pass") + cell("accept_fail");
  return (
    <tr>
      <td>{props.scorer}</td>
      <td class="num">{cell("accept_pass")}</td>
      <td class="num">{cell("accept_fail")}</td>
      <td class="num">{cell("reject_pass")}</td>
      <td class="num">{cell("reject_fail")}</td>
      <td>{interval(cell("accept_pass"), accepted)}</td>
      <td class="num">{percent(cell("bound_millionths") / 1e6, 1)}</td>
      <td class="num">{cell("level")} %</td>
      <td>{cell("distrusted") ? "execution decides" : "trusted"}</td>
    </tr>
  );
}

export function Judges(props: { run: string }) {
  const live = useLive();
  const series = useApi(`/api/runs/${props.run}/series${query({ prefix: "judg,audit_" })}`, live.beat);
  if (!series.data) return series.error ? <Problem error={series.error} /> : <Loading />;
  const ticks = series.data.tick;
  if (!hasJudges(ticks)) return <p class="empty">This run has no judge and no audit.</p>;
  const value = (name: string) => last(ticks, name);
  const calls = value("judge_calls");
  const votes = Math.max(0, calls + value("judge_cached") - value("judge_failed") - value("judge_malformed"));
  return (
    <>
      <p class="note">What models said of episodes, and how often execution agreed with what was decided without it.</p>
      {hasColumn(ticks, "judged") && (
        <>
          <div class="stats">
            <Stat name="Judged" value={short(value("judged"))} note={`${value("judging")} in progress, ${value("judge_waiting")} questions wait`} />
            <Stat name="Unavailable" value={short(value("judge_unavailable"))} note="never counted as a low score" tone={value("judge_unavailable") ? "warn" : ""} />
            <Stat name="Failed votes" value={short(value("judge_failed") + value("judge_malformed"))} note={`${value("judge_malformed")} did not parse, ${value("judge_breaks")} pauses`} tone={value("judge_breaks") ? "warn" : ""} />
            <Stat name="Votes" value={short(votes)} note={`on ${short(value("judgements"))} questions, ${value("judge_second")} second opinions`} />
            <Stat name="Votes agree" value={percent(value("judgements") ? 1 - value("judge_split") / value("judgements") : null, 1)} note={`split on ${value("judge_split")} questions`} />
            <Stat name="Time of an answer" value={`${(value("judge_micros") / 1e6 / Math.max(1, calls)).toFixed(2)} s`} note={`${short(calls)} questions, ${short(value("judge_cached"))} from the cache`} />
            <Stat name="Cost" value={(value("judge_cost_millionths") / 1e6).toFixed(2)} note={`${short(value("judge_tokens_in"))} tokens read, ${short(value("judge_tokens_out"))} written`} />
          </div>
          <Panel title="Questions">
            <Chart title="Questions a second" x={ticks.time_ms} xKind="time" series={[{ name: "sent", values: rate(ticks.time_ms, column(ticks, "judge_calls")), color: "c1" }, { name: "failed", values: rate(ticks.time_ms, column(ticks, "judge_failed")), color: "c3" }]} min={0} />
          </Panel>
        </>
      )}
      {audited(ticks).length > 0 && (
        <Panel title="Audit: said without execution, against execution">
          <table class="plain">
            <thead>
              <tr>
                <th>Scorer</th>
                <th class="num">Accepted, passes</th>
                <th class="num">Accepted, fails</th>
                <th class="num">Rejected, passes</th>
                <th class="num">Rejected, fails</th>
                <th>Precision (95 %)</th>
                <th class="num">Tolerated from</th>
                <th class="num">To the alarm</th>
                <th>State</th>
              </tr>
            </thead>
            <tbody>
              {audited(ticks).map((scorer) => (
                <AuditRow key={scorer} scorer={scorer} ticks={ticks} />
              ))}
            </tbody>
          </table>
        </Panel>
      )}
    </>
  );
}
