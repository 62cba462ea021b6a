// Which runs are shown together, and their curves in one chart.
import type { Json } from "./api";
import { Chart, type ChartProps, type Series } from "./chart";
import { words } from "./format";
import { curveOf, overlay, smooth, type Axis, type Values } from "./series";

const COLOURS = ["c1", "c3", "c2", "c4", "c5", "c6"];

// The same run has the same colour in every chart; after six the lines are dashed.
export function lineOf(i: number): Pick<Series, "color" | "dash"> {
  return { color: COLOURS[i % COLOURS.length], dash: i >= COLOURS.length };
}

export const AXES: Record<Axis, { label: string; xKind: ChartProps["xKind"]; xName: string }> = {
  step: { label: "learner steps", xKind: "number", xName: "step" },
  time: { label: "time since the begin", xKind: "span", xName: "after" },
  tokens: { label: "tokens trained on", xKind: "number", xName: "tokens" },
};

export function AxisChoice(props: { value: Axis; onChange: (axis: Axis) => void }) {
  return (
    <label>
      Axis
      <select value={props.value} onChange={(e) => props.onChange(e.currentTarget.value as Axis)}>
        {Object.entries(AXES).map(([axis, { label }]) => (
          <option key={axis} value={axis}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

export function axisOf(text: string | null): Axis {
  return text !== null && text in AXES ? (text as Axis) : "step";
}

export function Tags(props: { tags: string[] }) {
  return (
    <>
      {props.tags.map((tag) => (
        <span key={tag} class="badge tag">
          {tag}
        </span>
      ))}
    </>
  );
}

// Other runs to show beside this one, found by name or tag.
export function RunChoice(props: { run: string; runs: Json[]; chosen: string[]; search: string; onSearch: (text: string) => void; onChange: (names: string[]) => void }) {
  const others = props.runs.filter((r) => r.name !== props.run);
  const wanted = props.search.toLowerCase();
  const found = others.filter((r) => props.chosen.includes(r.name) || [r.name, ...(r.tags ?? [])].some((text) => text.toLowerCase().includes(wanted)));
  const toggle = (name: string) => props.onChange(props.chosen.includes(name) ? props.chosen.filter((one) => one !== name) : [...props.chosen, name]);
  return (
    <fieldset class="choices runs">
      <legend>{props.run} beside</legend>
      {others.length > 6 && <input type="search" aria-label="Find runs by name or tag" placeholder="name or tag" value={props.search} onInput={(e) => props.onSearch(e.currentTarget.value)} />}
      {found.slice(0, 40).map((r) => (
        <label key={r.name} class={props.chosen.includes(r.name) ? "on" : ""}>
          <input type="checkbox" checked={props.chosen.includes(r.name)} onChange={() => toggle(r.name)} />
          {r.name} <Tags tags={r.tags ?? []} />
        </label>
      ))}
      {found.length > 40 && <span class="soft">and {found.length - 40} more</span>}
    </fieldset>
  );
}

export interface RunsChartProps extends Pick<ChartProps, "min" | "max" | "log" | "format" | "height" | "note"> {
  title: string;
  names: string[];
  series: Json[]; // of each run
  kind: "step" | "tick";
  axis: Axis;
  smoothing?: number; // over so many rows
  values: (rows: Json) => Values;
}

// One figure of several runs over the axis that was chosen.
export function RunsChart(props: RunsChartProps) {
  const { names, series, kind, axis, smoothing, values, ...rest } = props;
  const curves = names.map((name, i) => {
    const curve = curveOf(name, series[i], kind, axis, values);
    return smoothing && smoothing > 1 ? { ...curve, values: smooth(curve.values, smoothing) } : curve;
  });
  const together = overlay(curves);
  return <Chart {...rest} x={together.x} xKind={AXES[axis].xKind} xName={AXES[axis].xName} series={names.map((name, i) => ({ name, values: together.values[i], ...lineOf(i) }))} />;
}

export function metricName(name: string): string {
  return words(name).replace(/^scorer /, "scorer: ").replace(/^busy (port|loop) /, "busy: ").replace(/^depth /, "queue: ");
}
