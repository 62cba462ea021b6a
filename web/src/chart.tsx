// A chart over time (or over steps, or of a histogram) that can be saved as PNG and CSV and read by those
// who do not see it.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import { color, useWidth } from "./hooks";
import { saveCsv, savePng } from "./save";
import { wholeMarks, withGaps, type Values } from "./series";
import { useTheme } from "./theme";

export interface Series {
  name: string;
  values: (number | null | undefined)[]; // null: a gap; undefined: another curve has a point here
  color: string; // the name of a colour of the style sheet
  band?: "low" | "high"; // the edges of a confidence band
  axis?: "y" | "right";
  dash?: boolean;
}

export interface ChartProps {
  title: string;
  note?: string;
  x: number[];
  xKind: "time" | "span" | "number" | "label"; // span: seconds since the begin
  xName?: string;
  labels?: string[]; // for xKind "label"
  series: Series[];
  bars?: boolean;
  height?: number;
  min?: number;
  max?: number;
  log?: boolean;
  gaps?: boolean; // rows come evenly, so that a long distance is a gap; default: over time
  format?: (value: number) => string;
  formatRight?: (value: number) => string;
}

const number = (value: number) => {
  const size = Math.abs(value);
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return size > 0 && size < 1e-3 ? (+value.toPrecision(3)).toExponential().replace("e-", "e−") : String(+value.toPrecision(4));
};
const whole = (value: number) => (Number.isInteger(value) ? value.toLocaleString("en-US") : number(value));

const SECONDS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000];

// Seconds since the begin: "4:05", with hours "1:04:05".
export function span(seconds: number): string {
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  const rest = `${minutes < 60 ? minutes : `${Math.floor(minutes / 60)}:${two(minutes % 60)}`}`;
  return `${rest}:${two(seconds % 60)}`;
}

// Seconds since 1970 as short as they can be told apart.
function times(splits: number[]): string[] {
  const step = splits.length > 1 ? splits[1] - splits[0] : 1;
  return splits.map((at) => {
    const date = new Date(at * 1000);
    const clock = date.toLocaleTimeString("en-GB");
    if (step >= 86_400) return date.toLocaleDateString("en-CA").slice(5);
    return step < 60 ? clock : clock.slice(0, 5);
  });
}

function axis(props: ChartProps, ink: string, grid: string): uPlot.Axis[] {
  const base = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui, sans-serif" };
  const x: uPlot.Axis = { ...base, space: 60, size: 30 };
  if (props.xKind === "time") x.values = (_, splits) => times(splits);
  if (props.xKind === "label") {
    x.values = (_, splits) => splits.map((at) => (Number.isInteger(at) ? (props.labels?.[at] ?? "") : ""));
    x.space = 38;
    x.grid = { show: false };
  } else if (props.xKind === "span") {
    x.values = (_, splits) => splits.map(span);
    x.incrs = SECONDS;
  } else if (props.xKind === "number") {
    x.incrs = wholeMarks(props.x);
    x.values = (_, splits) => splits.map(x.incrs ? whole : number);
  }
  const of = (side: "y" | "right", format?: (value: number) => string): uPlot.Axis => {
    const incrs = format || props.log ? undefined : wholeMarks(props.series.filter((one) => (one.axis ?? "y") === side).flatMap((one) => one.values));
    const shown = format ?? number;
    // A logarithmic axis has marks without a name between the powers of ten, and begins at no round number.
    const named = (at: number | null) => at !== null && !(props.log && +at.toPrecision(2) !== +at.toPrecision(6));
    return { ...base, size: 56, scale: side, incrs, values: (_, splits) => splits.map((at) => (named(at) ? shown(at) : "")) };
  };
  const axes: uPlot.Axis[] = [x, of("y", props.format)];
  if (props.series.some((series) => series.axis === "right")) {
    axes.push({ ...of("right", props.formatRight), side: 1, grid: { show: false } });
  }
  return axes;
}

function options(props: ChartProps, width: number): uPlot.Options {
  const ink = color("soft");
  const grid = color("line");
  const series: uPlot.Series[] = [{ label: props.xName ?? "time" }];
  for (const one of props.series) {
    const stroke = color(one.color);
    series.push({
      label: one.name,
      scale: one.axis === "right" ? "right" : "y",
      stroke: one.band ? "transparent" : stroke,
      width: one.band ? 0 : 1.75,
      dash: one.dash ? [5, 4] : undefined,
      fill: props.bars ? `${stroke}99` : undefined,
      points: { show: !one.band && !props.bars, size: 5, fill: stroke, filter: (u, at) => alone(u.data[at] as Series["values"]) },
      spanGaps: false,
      paths: props.bars ? uPlot.paths.bars!({ size: [0.8, 60] }) : undefined,
    });
  }
  const bands: uPlot.Band[] = [];
  const high = props.series.findIndex((one) => one.band === "high");
  const low = props.series.findIndex((one) => one.band === "low");
  if (high >= 0 && low >= 0) bands.push({ series: [high + 1, low + 1], fill: `${color(props.series[high].color)}2e` });
  const range: uPlot.Range.Function = (_, dataMin, dataMax) => {
    if (props.log) return dataMin && dataMax ? [dataMin / 1.3, dataMax * 1.3] : [0.1, 1];
    const least = props.min ?? dataMin ?? 0;
    let most = props.max ?? dataMax ?? 1;
    if (!(most > least)) most = least + 1;
    const pad = props.max === undefined ? (most - least) * 0.06 : 0;
    return [props.min === undefined ? least - (most - least) * 0.06 : least, most + pad];
  };
  return {
    width,
    height: props.height ?? 200,
    padding: [10, 8, 0, 0],
    legend: { show: false },
    cursor: { points: { size: 6 }, drag: { x: true, y: false } },
    scales: {
      x: { time: props.xKind === "time", range: props.xKind === "label" ? [-0.6, Math.max(0.6, props.x.length - 0.4)] : undefined },
      y: { range, distr: props.log ? 3 : 1 },
      right: { range: (_, least, most) => [Math.min(0, least ?? 0), (most || 1) * 1.06] },
    },
    axes: axis(props, ink, grid),
    series,
    bands,
  };
}

// Points without a neighbour, which no line shows.
function alone(values: Series["values"]): number[] {
  const known = values.map((_, i) => i).filter((i) => values[i] !== undefined);
  const has = (at: number) => known[at] !== undefined && values[known[at]] !== null;
  return known.filter((_, at) => has(at) && !has(at - 1) && !has(at + 1));
}

function lastValue(values: Series["values"]): number | null {
  for (let i = values.length - 1; i >= 0; --i) if (values[i] !== null && values[i] !== undefined) return values[i]!;
  return null;
}

// At a point of another curve: what this one had before.
function valueAt(values: Series["values"], i: number): number | null {
  while (i > 0 && values[i] === undefined) --i;
  return values[i] ?? null;
}

// As it is drawn: no line across a time in which nothing was recorded, no logarithm of what has none.
function drawn(given: ChartProps): ChartProps {
  let { x, series } = given;
  if (given.gaps ?? given.xKind === "time") {
    const spread = withGaps(x, series.map((one) => one.values as Values));
    x = spread.x;
    series = series.map((one, i) => ({ ...one, values: spread.all[i] }));
  }
  if (given.log) series = series.map((one) => ({ ...one, values: one.values.map((value) => (value !== undefined && !(value !== null && value > 0) ? null : value)) }));
  return { ...given, x, series };
}

export function Chart(given: ChartProps) {
  const props = drawn(given);
  const [box, width] = useWidth();
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const readout = useRef<HTMLSpanElement>(null);
  const theme = useTheme();
  const shape = JSON.stringify([props.series.map((s) => [s.name, s.color, s.axis, s.band]), props.xKind, props.labels, props.log, !wholeMarks(props.x), theme]);
  const xs = props.xKind === "time" ? props.x.map((ms) => ms / 1000) : props.x;
  const data = [xs, ...props.series.map((one) => one.values)] as uPlot.AlignedData;

  useEffect(() => {
    if (!place.current || width < 40) return;
    const made = options(props, width);
    made.hooks = { setCursor: [(u) => showValues(u)] };
    plot.current = new uPlot(made, data, place.current);
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, width > 40]);
  useEffect(() => {
    if (width > 40) plot.current?.setSize({ width, height: props.height ?? 200 });
  }, [width]);
  useEffect(() => {
    const u = plot.current;
    if (!u) return;
    // While somebody looks at a part, it stays.
    const old = u.data[0];
    const { min, max } = u.scales.x;
    const zoomed = props.xKind !== "label" && old.length > 1 && min != null && max != null && (min > old[0] || max < old[old.length - 1]);
    u.setData(data, !zoomed);
    if (zoomed) u.redraw();
  }, [given.x, ...given.series.map((one) => one.values)]);

  const showValues = (u: uPlot) => {
    if (!readout.current) return;
    const i = u.cursor.idx;
    if (i === null || i === undefined) {
      readout.current.textContent = "";
      return;
    }
    const name = props.xName ?? "";
    const at = props.xKind === "time" ? new Date(props.x[i]).toLocaleTimeString("en-GB") : props.xKind === "label" ? (props.labels?.[i] ?? "") : props.xKind === "span" ? `${name} ${span(props.x[i])}` : `${name} ${whole(props.x[i])}`;
    const parts = props.series.map((one) => {
      const value = valueAt(one.values, i);
      const format = (one.axis === "right" ? props.formatRight : props.format) ?? number;
      return `${one.name} ${value === null ? "–" : format(value)}`;
    });
    readout.current.textContent = `${at}:  ${parts.join("   ")}`;
  };

  const shown = props.series.filter((one) => !one.band);
  const summary = shown
    .map((one) => `${one.name}: ${lastValue(one.values) === null ? "no value" : (props.format ?? number)(lastValue(one.values)!)}`)
    .join(", ");
  const columns = [
    { name: props.xKind === "time" ? "time_ms" : (props.xName ?? "x"), values: props.xKind === "label" ? (props.labels ?? []) : given.x },
    ...given.series.map((one) => ({ name: one.name, values: one.values })),
  ];
  return (
    <figure class="panel chart">
      <figcaption>
        <h2>{props.title}</h2>
        <span class="actions">
          <button type="button" class="quiet" onClick={() => plot.current && savePng(props.title, plot.current.ctx.canvas, shown.map((one) => ({ name: one.name, color: color(one.color) })))} aria-label={`Save ${props.title} as PNG`}>
            PNG
          </button>
          <button type="button" class="quiet" onClick={() => saveCsv(props.title, columns)} aria-label={`Save ${props.title} as CSV`}>
            CSV
          </button>
        </span>
      </figcaption>
      {props.note && <p class="note">{props.note}</p>}
      {shown.length > 1 && (
        <ul class="legend" aria-hidden="true">
          {shown.map((one) => (
            <li key={one.name}>
              <i class={`swatch c-${one.color} ${one.dash ? "dashed" : ""}`} /> {one.name}
            </li>
          ))}
        </ul>
      )}
      <div ref={box} class="plot">
        {props.x.length === 0 ? <p class="empty">Nothing recorded yet.</p> : null}
        <div ref={place} role="img" aria-label={`${props.title}. Latest: ${summary}`} hidden={props.x.length === 0} />
      </div>
      <span ref={readout} class="readout" aria-hidden="true" />
    </figure>
  );
}
