import type { Json } from "../api";
import { Chart } from "../chart";
import { clock, duration, percent, short, words } from "../format";
import { useApi, useEvery } from "../hooks";
import { Loading, Panel, Problem, Stat } from "../parts";

function share(part: number, whole: number): string {
  return whole > 0 ? percent(part / whole, 1) : "–";
}

function Sums(props: { title: string; name: string; rows: Json[]; of: string; empty: string; tokens: boolean }) {
  return (
    <Panel title={props.title}>
      {props.rows.length === 0 ? (
        <p class="empty">{props.empty}</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={props.title}>
          <table class="rows">
            <thead>
              <tr>
                <th>{props.name}</th>
                <th class="num">Requests</th>
                {props.tokens && <th class="num">Failed</th>}
                {props.tokens && <th class="num">Prompt tokens</th>}
                {props.tokens && <th class="num">Cached</th>}
                {props.tokens && <th class="num">Answer tokens</th>}
                <th class="num">Last</th>
              </tr>
            </thead>
            <tbody>
              {props.rows.map((row) => (
                <tr key={row[props.of]}>
                  <td data-name={props.name}>
                    <strong>{props.tokens ? row[props.of] : words(row[props.of])}</strong>
                  </td>
                  <td data-name="Requests" class="num">
                    {short(row.requests)}
                  </td>
                  {props.tokens && (
                    <td data-name="Failed" class="num">
                      {short(row.errors)}
                    </td>
                  )}
                  {props.tokens && (
                    <td data-name="Prompt tokens" class="num">
                      {short(row.prompt_tokens)}
                    </td>
                  )}
                  {props.tokens && (
                    <td data-name="Cached" class="num">
                      {share(row.cached_tokens, row.prompt_tokens)}
                    </td>
                  )}
                  {props.tokens && (
                    <td data-name="Answer tokens" class="num">
                      {short(row.answer_tokens)}
                    </td>
                  )}
                  <td data-name="Last" class="num">
                    {clock(row.last_ms)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

export function Gateway() {
  const answer = useApi("/api/gateway", useEvery(3000));
  if (!answer.data) return answer.error ? <Problem error={answer.error} /> : <Loading />;
  const g = answer.data;
  const s = g.series;
  const times = s.time_ms as number[];
  const perSecond = (s.requests as number[]).map((n) => (n * 1000) / g.slot_ms);
  const cached = (s.prompt_tokens as number[]).map((n, i) => (n > 0 ? s.cached_tokens[i] / n : null));
  const latest = s.tokens_per_s.length > 1 ? s.tokens_per_s[s.tokens_per_s.length - 2] : null;
  return (
    <>
      <Problem error={answer.error} />
      <p class="note">
        {g.model}, policy version {g.version}. Charts show the last half hour in steps of ten seconds; sums count from the start of the process.
      </p>
      <div class="stats">
        <Stat name="Requests" value={short(g.total.requests)} note={`${short(g.running)} under way`} />
        <Stat name="First token, median" value={duration(g.first_token_ms.p50)} note={`99 %: ${duration(g.first_token_ms.p99)}`} />
        <Stat name="Tokens a second" value={short(latest)} note={`${short(g.total.answer_tokens)} in all`} />
        <Stat name="Queue" value={short(g.waiting)} tone={g.waiting ? "warn" : ""} note="requests that wait" />
        <Stat name="From the cache" value={share(g.total.cached_tokens, g.total.prompt_tokens)} note="of prompt tokens" />
        <Stat name="Refused or failed" value={short(g.total.errors)} tone={g.total.errors ? "warn" : ""} />
        <Stat name="Cache in use" value={share(g.pages_used, g.pages_total)} note={`${share(g.pages_cached, g.pages_total)} kept from earlier`} />
      </div>
      <div class="grid">
        <Chart title="Requests a second" x={times} xKind="time" series={[{ name: "requests", values: perSecond, color: "c1" }, { name: "refused or failed", values: (s.errors as number[]).map((n) => (n * 1000) / g.slot_ms), color: "c3" }]} min={0} />
        <Chart title="Time to the first token" x={times} xKind="time" series={[{ name: "median", values: s.first_token_p50_ms, color: "c1" }, { name: "99 %", values: s.first_token_p99_ms, color: "c2" }]} min={0} format={(v) => duration(v)} />
        <Chart title="Tokens a second" x={times} xKind="time" series={[{ name: "tokens of answers", values: s.tokens_per_s, color: "c1" }]} min={0} />
        <Chart title="Under way and waiting" x={times} xKind="time" series={[{ name: "under way", values: s.running, color: "c1" }, { name: "waiting", values: s.waiting, color: "c2" }]} min={0} />
        <Chart title="Prompt tokens from the cache" x={times} xKind="time" series={[{ name: "share", values: cached, color: "c1" }]} min={0} max={1} format={(v) => percent(v)} />
        <Sums title="Errors by kind" name="Kind" of="kind" rows={g.errors} empty="None." tokens={false} />
      </div>
      <Sums title="Tenants" name="Tenant" of="tenant" rows={g.tenants} empty="Nobody asked yet." tokens />
    </>
  );
}
