import type { Json } from "../api";
import { Chart } from "../chart";
import { dateTime, query, short, words } from "../format";
import { link, useApi, useLive } from "../hooks";
import { Loading, Panel, Problem, Stat } from "../parts";
import { column } from "../series";

export function Faults(props: { run: string }) {
  const live = useLive();
  const faults = useApi(`/api/runs/${props.run}/faults`, live.beat);
  const series = useApi(`/api/runs/${props.run}/series`, live.beat);
  if (!faults.data || !series.data) return faults.error ? <Problem error={faults.error} /> : <Loading />;
  const f = faults.data;
  const fates = f.counts.train_by_fate;
  const stale = f.kinds.reduce((sum: number, kind: Json) => sum + kind.stale, 0);
  const dead = f.tick.dead_letters ?? 0;
  const retries = Math.max(f.calls.retries, f.tick.tool_retries ?? 0) + (f.tick.reward_retries ?? 0);
  const ticks = series.data.tick;
  return (
    <>
      <p class="note">
        System failures. They never become a reward: calls are retried, then skipped, or the episode is kept as stale and its task is issued again.
      </p>
      <div class="stats">
        <Stat name="Retries" value={short(retries)} note="of calls and gradings" />
        <Stat name="Calls skipped" value={short(f.calls.skipped)} tone={f.calls.skipped ? "warn" : ""} />
        <Stat name="Stale episodes" value={short(stale)} tone={stale ? "warn" : ""} />
        <Stat name="Too old" value={short(Math.max(fates.too_old ?? 0, f.tick.too_old ?? 0))} note="over the staleness bound" />
        <Stat name="Zero variance" value={short(fates.zero_variance ?? f.tick.zero_variance ?? 0)} note="groups with equal rewards" />
        <Stat name="Not scored" value={short(f.counts.unscored)} />
        <Stat name="Dead letters" value={short(dead)} tone={dead ? "bad" : ""} />
        <Stat name="Warnings" value={short(f.warnings_total)} tone={f.warnings_total ? "warn" : ""} />
        <Stat name="Resumes" value={short(f.counts.resumes)} note={`${short(f.counts.steps_abandoned)} steps left behind`} />
      </div>
      <div class="grid">
        <Chart title="Retries, stale and too old so far" x={ticks.time_ms} xKind="time" series={[{ name: "retries", values: column(ticks, "tool_retries"), color: "c2" }, { name: "stale", values: column(ticks, "stale"), color: "c3" }, { name: "too old", values: column(ticks, "too_old"), color: "c1" }, { name: "zero variance", values: column(ticks, "zero_variance"), color: "c4" }]} min={0} />
        <Panel title="What failed">
          {f.kinds.length === 0 ? (
            <p class="empty">Nothing.</p>
          ) : (
            <table class="plain">
              <thead>
                <tr>
                  <th>Part</th>
                  <th class="num">Failures</th>
                  <th class="num">Stale episodes</th>
                </tr>
              </thead>
              <tbody>
                {f.kinds.map((kind: Json) => (
                  <tr key={kind.words}>
                    <td>{kind.words}</td>
                    <td class="num">{short(kind.failures)}</td>
                    <td class="num">{short(kind.stale)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Panel>
        <Panel title="Episodes that were not trained on">
          {f.fates.length === 0 ? (
            <p class="empty">None.</p>
          ) : (
            <table class="plain">
              <thead>
                <tr>
                  <th>Fate</th>
                  <th>Why</th>
                  <th class="num">Episodes</th>
                </tr>
              </thead>
              <tbody>
                {f.fates.map((fate: Json) => (
                  <tr key={fate.fate + fate.reason}>
                    <td>{words(fate.fate)}</td>
                    <td>{fate.reason || "–"}</td>
                    <td class="num">
                      <a href={`${link(props.run, "episodes")}${query({ fate: fate.fate })}`}>{short(fate.episodes)}</a>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Panel>
      </div>
      <Panel title="Warnings">
        {f.warnings.length === 0 ? (
          <p class="empty">None.</p>
        ) : (
          <ul class="remarks">
            {[...f.warnings].reverse().map((w: Json, i: number) => (
              <li key={i}>
                <time class="soft">{dateTime(w.time_ms)}</time> {w.what ?? JSON.stringify(w)}
              </li>
            ))}
          </ul>
        )}
      </Panel>
    </>
  );
}
