// What every slot was doing when, as lanes one can zoom into.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { isExport, type Json } from "../api";
import { clock, duration, percent, query } from "../format";
import { color, link, useApi, useLive, useTheme, useWidth } from "../hooks";
import { Loading, Panel, Problem } from "../parts";
import { saveCsv, savePng } from "../save";

const KINDS = [
  { name: "generating", color: "c1" },
  { name: "waiting for a tool", color: "c2" },
  { name: "scoring", color: "c4" },
  { name: "training", color: "c3" },
  { name: "idle", color: "line" },
] as const;

interface Segment {
  lane: number;
  kind: number;
  from: number;
  to: number;
  text: string;
  href?: string;
}

interface Lanes {
  names: string[];
  segments: Segment[];
  from: number;
  to: number;
  shares: { generating: number; tools: number; idle: number; training: number };
}

// Episodes go into the first lane that is free: as many lanes as ran at once.
function layOut(run: string, data: Json): Lanes {
  const segments: Segment[] = [];
  const free: number[] = [];
  let generating = 0;
  let tools = 0;
  const clip = (a: number, b: number) => Math.max(0, Math.min(b, data.to_ms) - Math.max(a, data.from_ms));
  for (const episode of data.episodes) {
    let lane = free.findIndex((until) => until <= episode.started_ms);
    if (lane < 0) lane = free.push(0) - 1;
    free[lane] = episode.finished_ms;
    const name = `${episode.task}, group ${episode.group} member ${episode.member}`;
    const href = link(run, "episodes", episode.group, episode.member);
    for (const [started, finished, observed] of episode.turns) {
      segments.push({ lane: lane + 1, kind: 0, from: started, to: finished, text: `${name}: generating`, href });
      generating += clip(started, finished);
      if (observed > finished) {
        segments.push({ lane: lane + 1, kind: 1, from: finished, to: observed, text: `${name}: waiting for a tool`, href });
        tools += clip(finished, observed);
      }
    }
    if (episode.scored_ms && episode.scored_ms > episode.finished_ms) {
      const end = Math.min(episode.scored_ms, episode.finished_ms + 60_000);
      segments.push({ lane: -1 - lane, kind: 2, from: episode.finished_ms, to: end, text: `${name}: scoring`, href });
    }
  }
  let training = 0;
  for (const step of data.steps) {
    const seconds = step.metrics.seconds ?? 0;
    const from = step.at_ms - seconds * 1000;
    segments.push({ lane: 0, kind: 3, from, to: step.at_ms, text: `step ${step.step}: training, then version ${step.version}` });
    training += clip(from, step.at_ms);
  }
  const span = Math.max(1, data.to_ms - data.from_ms);
  const total = span * Math.max(1, free.length);
  // Scoring is drawn as a thin line under the lane of its episode.
  for (const segment of segments) if (segment.lane < 0) segment.lane = -segment.lane;
  return {
    names: ["trainer", ...free.map((_, i) => `slot ${i + 1}`)],
    segments,
    from: data.from_ms,
    to: data.to_ms,
    shares: { generating: generating / total, tools: tools / total, idle: Math.max(0, 1 - (generating + tools) / total), training: training / span },
  };
}

const LANE = 15;
const LEFT = 58;

function draw(canvas: HTMLCanvasElement, lanes: Lanes, width: number, from: number, to: number): void {
  const scale = devicePixelRatio || 1;
  const height = lanes.names.length * LANE + 24;
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
    if (i === 0 || lanes.names.length < 40 || i % 4 === 0) context.fillText(name, LEFT - 6, i * LANE + 11);
    context.fillStyle = color("lane");
    context.fillRect(LEFT, i * LANE + 2, width - LEFT - 4, LANE - 3);
  });
  const fills = KINDS.map((kind) => color(kind.color));
  for (const segment of lanes.segments) {
    if (segment.to < from || segment.from > to) continue;
    const left = Math.max(LEFT, x(segment.from));
    const right = Math.min(width - 4, x(segment.to));
    context.fillStyle = fills[segment.kind];
    if (segment.kind === 2) context.fillRect(left, segment.lane * LANE + LANE - 3, Math.max(1, right - left), 2);
    else context.fillRect(left, segment.lane * LANE + 2, Math.max(1, right - left - 0.5), LANE - 3);
  }
  context.fillStyle = color("soft");
  context.textAlign = "center";
  const marks = Math.max(2, Math.floor((width - LEFT) / 110));
  for (let i = 0; i <= marks; ++i) {
    const ms = from + ((to - from) * i) / marks;
    context.textAlign = i === 0 ? "left" : i === marks ? "right" : "center";
    context.fillText(clock(ms), x(ms), lanes.names.length * LANE + 17);
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
    const lane = Math.floor(event.offsetY / LANE);
    return lanes.segments.find((s) => s.lane === lane && s.from <= at && at <= s.to);
  };
  const zoomBy = (factor: number, around: number) => {
    const left = around - (around - props.from) * factor;
    props.onZoom(left, left + (props.to - props.from) * factor);
  };
  const { shares } = lanes;
  const text = `${lanes.names.length - 1} slots: generating ${percent(shares.generating)}, waiting for tools ${percent(shares.tools)}, idle ${percent(shares.idle)}; the trainer trained ${percent(shares.training)} of the time.`;
  const csv = () =>
    saveCsv(props.title, [
      { name: "lane", values: lanes.segments.map((s) => lanes.names[s.lane]) },
      { name: "doing", values: lanes.segments.map((s) => KINDS[s.kind].name) },
      { name: "from_ms", values: lanes.segments.map((s) => s.from) },
      { name: "to_ms", values: lanes.segments.map((s) => s.to) },
      { name: "what", values: lanes.segments.map((s) => s.text) },
    ]);
  return (
    <Panel
      title={props.title}
      actions={
        <>
          <button type="button" class="quiet" aria-label={`Save ${props.title} as PNG`} onClick={() => canvas.current && savePng(props.title, canvas.current, KINDS.slice(0, 4).map((k) => ({ name: k.name, color: color(k.color) })))}>
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
  const end = extent.data ? extent.data.last_ms - props.back * props.seconds * 1000 : 0;
  const whole: [number, number] = [Math.max(end - props.seconds * 1000, 1), end];
  const [from, to] = zoom ?? whole;
  const target = extent.data && extent.data.last_ms > 0 ? `/api/runs/${props.run}/timeline${query({ from: Math.floor(from), to: Math.ceil(to) })}` : null;
  const window = useApi(target);
  if (extent.data && extent.data.last_ms === 0) return <p class="empty">No episode has finished yet.</p>;
  const data = window.data;
  const error = extent.error || window.error;
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  return (
    <>
      <LanesView run={props.run} data={data} title={`Timeline of ${props.run}`} from={Math.max(from, data.cut || isExport ? data.from_ms : 0)} to={to} onZoom={(a, b) => b - a > 20 && a > 0 && setZoom([a, b])} />
      {zoom && (
        <button type="button" onClick={() => setZoom(null)}>
          Back to the whole window
        </button>
      )}
      {data.cut && <p class="note">Too much to show at once: the begin of the window is left out. Zoom in or choose a shorter one.</p>}
    </>
  );
}

export function Timeline(props: { run: string; runs: Json[] }) {
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
        <button type="button" disabled={back === 0} onClick={() => setBack(back - 1)}>
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
        {KINDS.slice(0, 4).map((kind) => (
          <li key={kind.name}>
            <i class={`swatch c-${kind.color}`} /> {kind.name}
          </li>
        ))}
      </ul>
      <RunLanes run={props.run} seconds={seconds} back={back} />
      {other && <RunLanes run={other} seconds={seconds} back={back} />}
    </>
  );
}
