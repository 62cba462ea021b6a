// What every slot was doing when, as lanes one can zoom into.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { isExport, type Json } from "../api";
import { clock, duration, percent, query } from "../format";
import { color, link, useApi, useLive, useWidth } from "../hooks";
import { Loading, Panel, Problem } from "../parts";
import { saveCsv, savePng } from "../save";
import { useTheme } from "../theme";

const KINDS = [
  { name: "generating", color: "c1" },
  { name: "waiting for a tool", color: "c2" },
  { name: "scoring", color: "c4" },
  { name: "training", color: "c3" },
  { name: "publishing", color: "c5" },
  { name: "saving", color: "c6" },
  { name: "working (darker: busier)", color: "c1" },
] as const;
const BUSY = 6;

// What ports and loops are called in the metrics, in the order of the lanes.
const STRIPS: [string, string][] = [
  ["port_engine", "engine"],
  ["port_boxes", "boxes"],
  ["port_store", "store"],
  ["loop_dispatcher", "dispatcher"],
  ["loop_rollout", "rollout"],
  ["loop_tools", "tools"],
  ["loop_reward", "reward"],
  ["loop_replay", "replay"],
  ["loop_learner", "learner"],
];

interface Segment {
  lane: number;
  kind: number;
  from: number;
  to: number;
  text: string;
  alpha?: number;
  thin?: boolean; // under the lane of what it belongs to
  href?: string;
}

interface Lanes {
  names: string[];
  slots: number; // the last so many lanes are slots
  segments: Segment[];
  text: string;
}

// Between two ticks of the run, a second apart, the share in which each port and loop worked.
function addStrips(data: Json, names: string[], segments: Segment[]): void {
  const busy = data.work?.busy;
  if (!busy) return;
  for (const [key, name] of STRIPS) {
    const values: (number | null)[] | undefined = busy.columns[key];
    if (!values) continue;
    const lane = names.push(name) - 1;
    values.forEach((share, i) => {
      if (!share) return;
      segments.push({ lane, kind: BUSY, from: busy.from_ms[i], to: busy.to_ms[i], alpha: share, text: `${name}: ${percent(share)} busy` });
    });
  }
}

function addTrainer(data: Json, segments: Segment[]): void {
  for (const step of data.steps) {
    const from = step.at_ms - (step.metrics.seconds ?? 0) * 1000;
    segments.push({ lane: 0, kind: 3, from, to: step.at_ms, text: `step ${step.step}: training` });
  }
  for (const span of data.work?.spans ?? []) {
    const publishing = span.doing === "publishing";
    segments.push({ lane: 0, kind: publishing ? 4 : 5, from: span.from_ms, to: span.to_ms, text: publishing ? `publishing version ${span.version}` : `saving step ${span.step}` });
  }
}

// Episodes go into the first lane that is free: as many lanes as ran at once.
function addSlots(run: string, data: Json, first: number, segments: Segment[]): number {
  const free: number[] = [];
  for (const episode of data.episodes) {
    let slot = free.findIndex((until) => until <= episode.started_ms);
    if (slot < 0) slot = free.push(0) - 1;
    free[slot] = episode.finished_ms;
    const lane = first + slot;
    const name = `${episode.task}, group ${episode.group} member ${episode.member}`;
    const href = link(run, "episodes", episode.group, episode.member);
    for (const [started, finished, observed] of episode.turns) {
      segments.push({ lane, kind: 0, from: started, to: finished, text: `${name}: generating`, href });
      if (observed > finished) segments.push({ lane, kind: 1, from: finished, to: observed, text: `${name}: waiting for a tool`, href });
    }
    if (episode.scored_ms > episode.finished_ms) {
      const to = Math.min(episode.scored_ms, episode.finished_ms + 60_000);
      segments.push({ lane, kind: 2, from: episode.finished_ms, to, text: `${name}: scoring`, href, thin: true });
    }
  }
  return free.length;
}

function layOut(run: string, data: Json): Lanes {
  const names = ["trainer"];
  const segments: Segment[] = [];
  addTrainer(data, segments);
  addStrips(data, names, segments);
  const first = names.length;
  const slots = addSlots(run, data, first, segments);
  for (let i = 0; i < slots; ++i) names.push(`slot ${i + 1}`);
  const span = Math.max(1, data.to_ms - data.from_ms);
  const total = (kind: number) =>
    segments.filter((s) => s.kind === kind).reduce((sum, s) => sum + Math.max(0, Math.min(s.to, data.to_ms) - Math.max(s.from, data.from_ms)), 0);
  const area = span * Math.max(1, slots);
  const generating = total(0) / area;
  const tools = total(1) / area;
  const text = `${slots} slots: generating ${percent(generating)}, waiting for tools ${percent(tools)}, idle ${percent(Math.max(0, 1 - generating - tools))}; the trainer trained ${percent(Math.min(1, total(3) / span))} of the time.`;
  return { names, slots, segments, text };
}

const LEFT = 74;
const WIDE_LANE = 15;

// Where lanes are: those of loops and ports as they are, slots thinner the more there are.
function geometry(lanes: Lanes) {
  const slot = lanes.slots <= 40 ? WIDE_LANE : lanes.slots <= 96 ? 9 : 5;
  const first = lanes.names.length - lanes.slots;
  const gap = 8;
  const top = (lane: number) => (lane < first ? lane * WIDE_LANE : first * WIDE_LANE + gap + (lane - first) * slot);
  const height = (lane: number) => (lane < first ? WIDE_LANE : slot);
  const end = top(lanes.names.length);
  const at = (y: number) => {
    const lane = y < first * WIDE_LANE ? Math.floor(y / WIDE_LANE) : first + Math.floor((y - first * WIDE_LANE - gap) / slot);
    return lane < lanes.names.length ? lane : -1;
  };
  return { top, height, end, at, first, slot };
}

function draw(canvas: HTMLCanvasElement, lanes: Lanes, width: number, from: number, to: number): void {
  const scale = devicePixelRatio || 1;
  const place = geometry(lanes);
  const height = place.end + 24;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.font = "10.5px system-ui, sans-serif";
  const x = (ms: number) => LEFT + ((ms - from) / (to - from)) * (width - LEFT - 4);
  lanes.names.forEach((name, i) => {
    context.fillStyle = color("soft");
    context.textAlign = "right";
    const every = place.slot === WIDE_LANE ? 1 : 8;
    if (i < place.first || (i - place.first) % every === 0) context.fillText(name, LEFT - 6, place.top(i) + 11);
    context.fillStyle = color("lane");
    context.fillRect(LEFT, place.top(i) + 1, width - LEFT - 4, place.height(i) - 2);
  });
  const fills = KINDS.map((kind) => color(kind.color));
  for (const segment of lanes.segments) {
    if (segment.to < from || segment.from > to) continue;
    const left = Math.max(LEFT, x(segment.from));
    const right = Math.min(width - 4, x(segment.to));
    const top = place.top(segment.lane);
    const tall = place.height(segment.lane);
    context.fillStyle = fills[segment.kind];
    context.globalAlpha = segment.alpha ?? 1;
    if (segment.thin) context.fillRect(left, top + tall - 3, Math.max(1, right - left), 2);
    else context.fillRect(left, top + 1, Math.max(1, right - left - (segment.alpha === undefined ? 0.5 : 0)), tall - 2);
  }
  context.globalAlpha = 1;
  context.fillStyle = color("soft");
  const marks = Math.max(2, Math.floor((width - LEFT) / 110));
  for (let i = 0; i <= marks; ++i) {
    const ms = from + ((to - from) * i) / marks;
    context.textAlign = i === 0 ? "left" : i === marks ? "right" : "center";
    context.fillText(clock(ms), x(ms), place.end + 17);
  }
}

function LanesView(props: { run: string; data: Json; title: string; from: number; to: number; onZoom: (from: number, to: number) => void }) {
  const [box, width] = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const lanes = useMemo(() => layOut(props.run, props.data), [props.run, props.data]);
  const [tip, setTip] = useState("");
  const drag = useRef<number | null>(null);
  useEffect(() => {
    if (canvas.current && width > 80) draw(canvas.current, lanes, width, props.from, props.to);
  }, [lanes, width, props.from, props.to, theme]);
  const timeAt = (event: MouseEvent) => {
    const share = (event.offsetX - LEFT) / (width - LEFT - 4);
    return props.from + share * (props.to - props.from);
  };
  const find = (event: MouseEvent) => {
    const at = timeAt(event);
    const lane = geometry(lanes).at(event.offsetY);
    return lanes.segments.find((s) => s.lane === lane && s.from <= at && at <= s.to);
  };
  const zoomBy = (factor: number, around: number) => {
    const left = around - (around - props.from) * factor;
    props.onZoom(left, left + (props.to - props.from) * factor);
  };
  const { text } = lanes;
  const csv = () =>
    saveCsv(props.title, [
      { name: "lane", values: lanes.segments.map((s) => lanes.names[s.lane]) },
      { name: "doing", values: lanes.segments.map((s) => KINDS[s.kind].name) },
      { name: "from_ms", values: lanes.segments.map((s) => s.from) },
      { name: "to_ms", values: lanes.segments.map((s) => s.to) },
      { name: "share", values: lanes.segments.map((s) => s.alpha ?? 1) },
      { name: "what", values: lanes.segments.map((s) => s.text) },
    ]);
  return (
    <Panel
      title={props.title}
      actions={
        <>
          <button type="button" class="quiet" aria-label={`Save ${props.title} as PNG`} onClick={() => canvas.current && savePng(props.title, canvas.current, KINDS.map((k) => ({ name: k.name, color: color(k.color) })))}>
            PNG
          </button>
          <button type="button" class="quiet" aria-label={`Save ${props.title} as CSV`} onClick={csv}>
            CSV
          </button>
        </>
      }
    >
      <p class="verdict">{text}</p>
      <div ref={box} class="lanes">
        <canvas
          ref={canvas}
          role="img"
          tabIndex={0}
          aria-label={`${text} Arrow keys move, plus and minus zoom.`}
          onMouseMove={(event) => {
            const segment = find(event);
            setTip(segment ? `${segment.text}, ${duration(segment.to - segment.from)} from ${clock(segment.from)}` : "");
          }}
          onMouseLeave={() => setTip("")}
          onMouseDown={(event) => (drag.current = timeAt(event))}
          onMouseUp={(event) => {
            const from = drag.current;
            drag.current = null;
            const at = timeAt(event);
            if (from !== null && Math.abs(at - from) > (props.to - props.from) / 50) {
              props.onZoom(Math.min(from, at), Math.max(from, at));
              return;
            }
            const segment = find(event);
            if (segment?.href) location.hash = segment.href;
          }}
          onKeyDown={(event) => {
            const step = (props.to - props.from) / 4;
            const middle = (props.from + props.to) / 2;
            if (event.key === "ArrowLeft") props.onZoom(props.from - step, props.to - step);
            else if (event.key === "ArrowRight") props.onZoom(props.from + step, props.to + step);
            else if (event.key === "+" || event.key === "=") zoomBy(0.5, middle);
            else if (event.key === "-") zoomBy(2, middle);
            else return;
            event.preventDefault();
          }}
        />
      </div>
      <p class="readout" aria-live="polite">
        {tip || "Drag to zoom, click for the episode."}
      </p>
    </Panel>
  );
}

function RunLanes(props: { run: string; seconds: number; back: number }) {
  const live = useLive();
  const extent = useApi(`/api/runs/${props.run}/timeline?limit=1`, live.run === props.run && props.back === 0 ? live.beat : 0);
  const [zoom, setZoom] = useState<[number, number] | null>(null);
  useEffect(() => setZoom(null), [props.seconds, props.back, props.run]);
  // Of a run that ended the last step is more telling than the evaluation after it.
  const newest = extent.data ? (live.state !== "running" && extent.data.last_step_ms) || extent.data.last_ms : 0;
  const end = newest - props.back * props.seconds * 1000;
  const whole: [number, number] = [Math.max(end - props.seconds * 1000, 1), end];
  const [from, to] = zoom ?? whole;
  const target = extent.data && extent.data.last_ms > 0 ? `/api/runs/${props.run}/timeline${query({ from: Math.floor(from), to: Math.ceil(to), limit: 1000 })}` : null;
  const window = useApi(target);
  if (extent.data && extent.data.last_ms === 0) return <p class="empty">No episode has finished yet.</p>;
  const data = window.data;
  const error = extent.error || window.error;
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  const shown = Math.max(from, data.cut || isExport ? data.from_ms : 0);
  return (
    <>
      <LanesView run={props.run} data={data} title={`Timeline of ${props.run}`} from={shown} to={to} onZoom={(a, b) => b - a > 20 && a > 0 && setZoom([a, b])} />
      {zoom && (
        <button type="button" onClick={() => setZoom(null)}>
          Back to the whole window
        </button>
      )}
      <p class="note">
        Shown: {duration(to - shown)} from {clock(shown)} to {clock(to)}
        {data.cut && `, the end of the window of ${duration(to - from)}: too much to show at once. Zoom in or choose a shorter one`}.
      </p>
    </>
  );
}

export function Timeline(props: { run: string; runs: Json[] }) {
  const live = useLive();
  const [seconds, setSeconds] = useState(20);
  const [back, setBack] = useState(0);
  const [other, setOther] = useState("");
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Window
          <select value={seconds} onChange={(e) => setSeconds(Number(e.currentTarget.value))}>
            {[5, 10, 20, 60, 300].map((s) => (
              <option key={s} value={s}>
                {s < 60 ? `${s} s` : `${s / 60} min`}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => setBack(back + 1)}>
          ← Earlier
        </button>
        <button type="button" disabled={back === 0 && live.state === "running"} onClick={() => setBack(back - 1)}>
          Later →
        </button>
        <label>
          Beside
          <select value={other} onChange={(e) => setOther(e.currentTarget.value)}>
            <option value="">no other run</option>
            {props.runs.filter((r) => r.name !== props.run).map((r) => (
              <option key={r.name}>{r.name}</option>
            ))}
          </select>
        </label>
      </form>
      <ul class="legend" aria-label="Colours">
        {KINDS.map((kind, i) => (
          <li key={kind.name}>
            <i class={i === BUSY ? "swatch shades" : `swatch c-${kind.color}`} /> {kind.name}
          </li>
        ))}
      </ul>
      <RunLanes run={props.run} seconds={seconds} back={back} />
      {other && <RunLanes run={other} seconds={seconds} back={back} />}
    </>
  );
}
