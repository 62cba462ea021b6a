import { Chart } from "../chart";
import { passRate } from "../evaluations";
import { duration, percent, short } from "../format";
import { useApi, useLive } from "../hooks";
import { Loading, Problem, Stat } from "../parts";
import { metricName } from "../runs";
import { column, hasColumn, lagHistogram, level, rate, shareBetween, smooth } from "../series";
import { FleetStrip } from "./fleet";
import { LoopPicture } from "./loops";
import { Notes } from "./notes";

export function Overview(props: { run: string }) {
  const live = useLive();
  const base = `/api/runs/${props.run}`;
  const run = useApi(base, live.beat);
  const series = useApi(`${base}/series`, live.beat);
  const passRates = useApi(`${base}/pass_rate`, live.beat);
  if (!run.data || !series.data) return run.error ? <Problem error={run.error} /> : <Loading />;
  const tick = live.tick ?? run.data.tick;
  const ticks = series.data.tick;
  const steps = level(series.data.step);
  const points = passRates.data?.points ?? [];
  const evals = run.data.evals as any[];
  const rated = passRate(run.data);
  const running = run.data.state === "running";
  const tokens = smooth(rate(ticks.time_ms, column(ticks, "generated_tokens")), 3);
  const trained = smooth(rate(ticks.time_ms, column(ticks, "trained_tokens")), 5);
  const lastOf = (values: (number | null)[]) => [...values].reverse().find((v) => v !== null) ?? null;
  const lag = lagHistogram(steps, 50);
  const times = ticks.time_ms as number[];
  const lately = times.length > 1 ? times[times.length - 1] - times[Math.max(0, times.length - 4)] : 0;
  const seconds = column(ticks, "seconds");
  const overSteps = { x: column(steps, "step") as number[], xKind: "number" as const, xName: "step", gaps: true };
  const scorers = Object.keys(steps.columns).filter((name) => name.startsWith("scorer_"));
  const busy = (name: string) => smooth(shareBetween(seconds, column(ticks, name)), 5);
  return (
    <>
      <Problem error={run.error || series.error} />
      <Notes key={props.run} run={props.run} data={run.data} />
      <div class="stats">
        <Stat name="Steps" value={short(run.data.counts.steps)} note={`version ${short(tick.version ?? run.data.counts.last_version)}`} />
        <Stat name="Episodes" value={short(run.data.counts.episodes)} note={`${short(run.data.counts.train)} to train on`} />
        <Stat name="Pass rate, evaluated" value={rated.value} note={rated.note} tone={rated.better ? "good" : ""} />
        <Stat name="Tokens per second" value={short(running ? lastOf(tokens) : tick.generated_tokens / tick.seconds)} note={running ? `over the last ${duration(lately)}` : `over the whole run, ${short(tick.generated_tokens)} generated`} />
        <Stat name="Lag, mean" value={short(lastOf(column(steps, "lag_mean")))} note="steps behind the learner" />
        <Stat name={running ? "Running for" : "Ran for"} value={duration((tick.seconds ?? run.data.summary?.seconds ?? 0) * 1000)} note={`${short(run.data.warnings)} warnings`} tone={run.data.warnings ? "warn" : ""} />
      </div>
      {live.fleet?.many && <FleetStrip run={props.run} fleet={live.fleet} />}
      <LoopPicture tick={tick} ticks={ticks} running={running} />
      <div class="grid">
        <Chart
          title="Pass rate while training"
          note="Share of episodes that pass every hidden test, with its 95 % interval."
          x={points.map((p: any) => p.from_ms)}
          xKind="time"
          series={[
            { name: "high", values: points.map((p: any) => p.high), color: "c1", band: "high" },
            { name: "low", values: points.map((p: any) => p.low), color: "c1", band: "low" },
            { name: "pass rate", values: points.map((p: any) => p.pass_rate), color: "c1" },
          ]}
          min={0}
          max={1}
          format={(v) => percent(v)}
        />
        <Chart title="Reward" {...overSteps} series={[{ name: "mean reward of the batch", values: column(steps, "reward"), color: "c2" }, { name: "over 10 steps", values: smooth(column(steps, "reward"), 10), color: "c4" }]} />
        {evals.length > 0 && <Evaluations evals={evals} />}
        {scorers.length > 0 && <Chart title="Reward by scorer" note="Mean of each scorer's values over the batch, before the weights." {...overSteps} series={scorers.slice(0, 6).map((name, i) => ({ name: metricName(name).replace("scorer: ", ""), values: smooth(column(steps, name), 5), color: `c${i + 1}` }))} />}
        {hasColumn(steps, "loss") && <Chart title="Loss" {...overSteps} series={[{ name: "loss", values: column(steps, "loss"), color: "c2" }, { name: "over 10 steps", values: smooth(column(steps, "loss"), 10), color: "c4" }]} />}
        {hasColumn(steps, "lr") && <Chart title="Learning rate" {...overSteps} series={[{ name: "learning rate", values: column(steps, "lr"), color: "c1" }]} min={0} />}
        {hasColumn(steps, "response_tokens") && <Chart title="Answer length" note="Trained tokens of an episode, mean of the batch." {...overSteps} series={[{ name: "tokens", values: column(steps, "response_tokens"), color: "c3" }]} min={0} format={(v) => short(v)} />}
        <Chart title="Tokens per second" x={ticks.time_ms} xKind="time" series={[{ name: "generated", values: tokens, color: "c1" }, { name: "trained on", values: trained, color: "c3" }]} min={0} />
        <Chart title="Busy share of ports" note="Where the engine or the trainer is not busy, it is waiting." x={ticks.time_ms} xKind="time" series={[{ name: "engine", values: busy("busy_port_engine"), color: "c1" }, { name: "trainer", values: busy("busy_port_trainer"), color: "c3" }, { name: "boxes", values: busy("busy_port_boxes"), color: "c2" }, { name: "store", values: busy("busy_port_store"), color: "c4" }]} min={0} max={1} format={(v) => percent(v)} />
        <Chart title="Lag of tokens" note="How many steps old tokens were when trained on; the last 50 steps." x={lag.counts.map((_, i) => i)} xKind="label" labels={lag.labels} xName="steps behind" bars series={[{ name: "share of tokens", values: lag.counts, color: "c1" }]} min={0} format={(v) => percent(v)} />
        <Chart title="Lag and version" x={ticks.time_ms} xKind="time" series={[{ name: "policy version", values: column(ticks, "version"), color: "c4" }, { name: "steps", values: column(ticks, "steps"), color: "c1", dash: true }]} min={0} />
        {hasColumn(steps, "entropy") && (
          <Chart title="Entropy and KL" {...overSteps} series={[{ name: "entropy", values: column(steps, "entropy"), color: "c1" }, { name: "KL to the sampler", values: column(steps, "policy_kl"), color: "c3", axis: "right" }]} />
        )}
        {hasColumn(steps, "grad_norm") && (
          <Chart title="Gradient norm and clipping" {...overSteps} series={[{ name: "gradient norm", values: column(steps, "grad_norm"), color: "c2" }, { name: "clip fraction", values: column(steps, "clip_fraction"), color: "c3", axis: "right" }]} formatRight={(v) => percent(v, 1)} />
        )}
      </div>
    </>
  );
}

// Every whole evaluation of one kind is on a line: before, during and after training; the greedy ones; those with other
// turns.
function kindOf(name: string): string {
  const rest = name.replace(/^(before|after|during-step-\d+)-?/, "");
  return rest === name && !/^(before|after)$/.test(name) ? name : rest || "sampled";
}

function Evaluations(props: { evals: any[] }) {
  const evals = props.evals.filter((e) => e.step !== null && e.step !== undefined && e.samples > 0 && e.complete).sort((a, b) => a.step - b.step);
  const kinds = [...new Set(evals.map((e) => kindOf(e.name)))].slice(0, 6);
  const x = [...new Set(evals.map((e) => e.step as number))];
  const of = (kind: string, value: (e: any) => number): (number | undefined)[] => x.map((step) => evals.filter((e) => e.step === step && kindOf(e.name) === kind).map(value).pop());
  const first = kinds[0];
  const band = [
    { name: "high", values: of(first, (e) => Math.min(1, e.pass_rate + (e.ci95 ?? 0))), color: "c1", band: "high" as const },
    { name: "low", values: of(first, (e) => Math.max(0, e.pass_rate - (e.ci95 ?? 0))), color: "c1", band: "low" as const },
  ];
  return <Chart title="Pass rate, evaluated" note="Held-out tasks after so many steps, with the 95 % interval." x={x} xKind="number" xName="step" series={[...(first ? band : []), ...kinds.map((kind, i) => ({ name: kind, values: of(kind, (e) => e.pass_rate), color: `c${i + 1}` }))]} min={0} max={1} format={(v) => percent(v)} />;
}
