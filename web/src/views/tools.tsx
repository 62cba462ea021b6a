import { useEffect, useState } from "preact/hooks";

import type { Json } from "../api";
import { Chart } from "../chart";
import { duration, percent, short, words } from "../format";
import { useApi, useLive } from "../hooks";
import { Badge, Loading, Panel, Problem } from "../parts";
import { column, hasColumn, meanBetween, smooth } from "../series";

function bound(ms: number): string {
  return ms >= 1000 ? `${Math.round(ms / 1000)} s` : `${ms}`;
}

function share(part: number, whole: number): string {
  return whole > 0 ? percent(part / whole, 1) : "–";
}

export function Tools(props: { run: string }) {
  const live = useLive();
  const [again, setAgain] = useState(0);
  const tools = useApi(`/api/runs/${props.run}/tools`, live.beat + again);
  const series = useApi(`/api/runs/${props.run}/series`, live.beat);
  useEffect(() => {
    // Calls are summed up from the episodes a little at a time.
    if (!tools.data || tools.data.complete) return;
    const timer = setTimeout(() => setAgain((n) => n + 1), 300);
    return () => clearTimeout(timer);
  }, [tools.data]);
  if (!tools.data || !series.data) return tools.error ? <Problem error={tools.error} /> : <Loading />;
  const list = tools.data.tools as Json[];
  const ticks = series.data.tick;
  const hits = column(ticks, "cache_hits");
  const misses = column(ticks, "cache_misses");
  const commands = column(ticks, "tool_commands");
  const recent = (name: string) => (hasColumn(ticks, "tool_commands") ? smooth(meanBetween(commands, column(ticks, name)), 5) : column(ticks, name));
  const cached = hits.map((value, i) => (value === null || misses[i] === null || value + misses[i]! === 0 ? null : value / (value + misses[i]!)));
  return (
    <>
      {!tools.data.complete && (
        <p class="note" role="status">
          Read {short(tools.data.episodes_read)} of {short(tools.data.episodes)} episodes so far.
        </p>
      )}
      <Panel title="Calls">
        {list.length === 0 ? (
          <p class="empty">No tool was called.</p>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Calls by tool">
            <table class="rows">
              <thead>
                <tr>
                  <th>Tool</th>
                  <th class="num">Calls</th>
                  <th>Outcomes</th>
                  <th class="num">In the box, median</th>
                  <th class="num">95 %</th>
                  <th class="num">Queued, median</th>
                  <th class="num">95 %</th>
                  <th class="num">Tests passed</th>
                  <th class="num">Retries</th>
                  <th class="num">Skipped</th>
                </tr>
              </thead>
              <tbody>
                {list.map((tool) => (
                  <tr key={tool.tool}>
                    <td data-name="Tool">
                      <strong>{tool.tool}</strong>
                    </td>
                    <td data-name="Calls" class="num">
                      {short(tool.calls)}
                    </td>
                    <td data-name="Outcomes" class="wide">
                      {Object.entries<number>(tool.outcomes).map(([name, count]) => (
                        <span key={name} class="pair">
                          <Badge text={name} /> {percent(count / tool.calls)}
                        </span>
                      ))}
                    </td>
                    <td data-name="In the box" class="num">
                      {duration(tool.run.p50_ms)}
                    </td>
                    <td data-name="… 95 %" class="num">
                      {duration(tool.run.p95_ms)}
                    </td>
                    <td data-name="Queued" class="num">
                      {duration(tool.queue.p50_ms)}
                    </td>
                    <td data-name="… 95 %" class="num">
                      {duration(tool.queue.p95_ms)}
                    </td>
                    <td data-name="Tests passed" class="num">
                      {share(tool.tests_passed, tool.tests_total)}
                    </td>
                    <td data-name="Retries" class="num">
                      {short(tool.retries)}
                    </td>
                    <td data-name="Skipped" class="num">
                      {short(tool.skipped)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Panel>
      <div class="grid">
        {list.map((tool) => {
          const used = tool.run.counts.map((n: number, i: number) => n + tool.queue.counts[i] > 0);
          const first = Math.max(0, used.indexOf(true));
          const last = used.lastIndexOf(true) + 1;
          return (
            <Chart
              key={tool.tool}
              title={`${words(tool.tool)}: time of a call`}
              note="Upper bounds in milliseconds, doubling."
              x={tool.run.counts.slice(first, last).map((_: number, i: number) => i)}
              xKind="label"
              labels={tool.run.bounds_ms.slice(first, last).map(bound)}
              xName="up to ms"
              bars
              series={[
                { name: "in the box", values: tool.run.counts.slice(first, last), color: "c1" },
                { name: "waiting", values: tool.queue.counts.slice(first, last), color: "c2" },
              ]}
              min={0}
            />
          );
        })}
        <Chart title="Answers from the cache" x={ticks.time_ms} xKind="time" series={[{ name: "share of calls", values: cached, color: "c1" }]} min={0} max={1} format={(v) => percent(v)} />
        <Chart title="Queue wait and run time" x={ticks.time_ms} xKind="time" series={[{ name: "queued, mean", values: recent("queue_ms"), color: "c2" }, { name: "in the box, mean", values: recent("tool_ms"), color: "c1" }]} min={0} format={(v) => duration(v)} />
        <Chart title="Episodes that wait for tools" x={ticks.time_ms} xKind="time" series={[{ name: "waiting", values: column(ticks, "waiting_for_tools"), color: "c3" }]} min={0} />
      </div>
    </>
  );
}
