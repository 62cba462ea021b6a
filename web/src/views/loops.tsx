// The picture of the loops: boxes with how busy they are, arrows with how much waits and how much passes.
import { useRef } from "preact/hooks";

import type { Json } from "../api";
import { duration, percent, short } from "../format";
import { useWidth } from "../hooks";
import { Panel } from "../parts";
import { saveCsv, saveSvgPng } from "../save";
import { column, rate, shareBetween } from "../series";

interface Box {
  id: string;
  title: string;
  loop: string;
  port?: string;
  portName?: string;
  detail: (tick: Json) => string;
}

const BOXES: Box[] = [
  { id: "dispatcher", title: "dispatcher", loop: "dispatcher", detail: () => "issues groups" },
  { id: "rollout", title: "rollout", loop: "rollout", port: "engine", portName: "engine", detail: (t) => `${short(t.episodes_running)} episodes, ${short(t.waiting_for_tools)} at tools` },
  { id: "tools", title: "tools", loop: "tools", port: "boxes", portName: "boxes", detail: (t) => `${short(t.tool_calls)} calls, ${duration(t.tool_ms)}` },
  { id: "reward", title: "reward", loop: "reward", detail: (t) => `${short(t.waiting_verdicts)} waiting for a verdict` },
  { id: "replay", title: "replay", loop: "replay", port: "store", portName: "store", detail: (t) => `${short(t.ready_episodes)} episodes ready` },
  { id: "learner", title: "learner", loop: "learner", port: "trainer", portName: "trainer", detail: (t) => `step ${short(t.steps)}, version ${short(t.version)}` },
];

interface Arrow {
  from: string;
  to: string;
  name: string;
  depths: string[]; // topics whose messages wait
  flow?: string; // the total that passes here
  unit?: string;
}

const ARROWS: Arrow[] = [
  { from: "dispatcher", to: "rollout", name: "groups", depths: ["rollout.groups"] },
  { from: "rollout", to: "tools", name: "tool calls", depths: ["tools.run_tests", "tools.compile", "tools.lint", "tools.files", "tools.command"], flow: "tool_calls" },
  { from: "rollout", to: "replay", name: "trajectories", depths: ["replay.trajectories"], flow: "episodes_finished" },
  { from: "replay", to: "reward", name: "to score", depths: ["reward.score"], flow: "scored" },
  { from: "reward", to: "tools", name: "gradings", depths: ["tools.grade"], flow: "gradings" },
  { from: "replay", to: "learner", name: "batches", depths: [], flow: "trained_tokens", unit: "tok" },
  { from: "learner", to: "rollout", name: "weights", depths: [], flow: "version" },
  { from: "learner", to: "dispatcher", name: "reports", depths: ["dispatch.reports"] },
];

type Point = [number, number];
interface Layout {
  width: number;
  height: number;
  box: number; // width of a box
  at: Record<string, Point>; // centres
  routes: Record<string, { points: Point[]; label: Point; anchor?: string }>;
}

const H = 88;

const WIDE: Layout = {
  width: 980,
  height: 340,
  box: 176,
  at: { dispatcher: [110, 70], rollout: [470, 70], tools: [868, 70], learner: [110, 290], replay: [470, 290], reward: [868, 290] },
  routes: {
    "dispatcher-rollout": { points: [[198, 70], [382, 70]], label: [290, 58] },
    "rollout-tools": { points: [[558, 70], [780, 70]], label: [669, 58] },
    "rollout-replay": { points: [[510, 114], [510, 246]], label: [520, 176], anchor: "start" },
    "replay-reward": { points: [[558, 290], [780, 290]], label: [669, 278] },
    "reward-tools": { points: [[868, 246], [868, 114]], label: [858, 176], anchor: "end" },
    "replay-learner": { points: [[382, 290], [198, 290]], label: [290, 278] },
    "learner-rollout": { points: [[150, 246], [150, 196], [425, 196], [425, 114]], label: [290, 186] },
    "learner-dispatcher": { points: [[70, 246], [70, 114]], label: [80, 152], anchor: "start" },
  },
};

const TALL: Layout = {
  width: 400,
  height: 526,
  box: 154,
  at: { dispatcher: [92, 60], learner: [310, 60], rollout: [92, 240], tools: [310, 240], replay: [92, 430], reward: [310, 430] },
  routes: {
    "dispatcher-rollout": { points: [[64, 104], [64, 196]], label: [72, 132], anchor: "start" },
    "rollout-tools": { points: [[169, 240], [233, 240]], label: [201, 180] },
    "rollout-replay": { points: [[92, 284], [92, 386]], label: [100, 338], anchor: "start" },
    "replay-reward": { points: [[169, 430], [233, 430]], label: [201, 500] },
    "reward-tools": { points: [[310, 386], [310, 284]], label: [302, 338], anchor: "end" },
    "replay-learner": { points: [[15, 430], [6, 430], [6, 6], [310, 6], [310, 16]], label: [16, 500], anchor: "start" },
    "learner-rollout": { points: [[310, 104], [310, 150], [126, 150], [126, 196]], label: [318, 132], anchor: "start" },
    "learner-dispatcher": { points: [[233, 72], [169, 72]], label: [201, 50] },
  },
};

// Busy between the last two rows of the plots: what happens now, not on average since the begin.
function now(ticks: Json, name: string, tick: Json): number | null {
  const values = shareBetween(column(ticks, "seconds"), column(ticks, name));
  for (let i = values.length - 1; i >= 0; --i) if (values[i] !== null) return values[i];
  return tick[name] ?? null;
}

function flowOf(ticks: Json, name: string): number | null {
  const values = rate(ticks.time_ms, column(ticks, name)).filter((v): v is number => v !== null);
  const last = values.slice(-5);
  return last.length ? last.reduce((sum, v) => sum + v, 0) / last.length : null;
}

export function LoopPicture(props: { tick: Json; ticks: Json; running: boolean }) {
  const [box, width] = useWidth();
  const svg = useRef<SVGSVGElement>(null);
  const layout = width > 0 && width < 680 ? TALL : WIDE;
  const { tick, ticks } = props;
  // Of a run that ended its last second says nothing: what counts is the whole of it.
  const busyOf = (port: string): number | null => (props.running ? now(ticks, `busy_port_${port}`, tick) : (tick[`busy_port_${port}`] ?? null));
  const ports = BOXES.filter((b) => b.port).map((b) => ({ ...b, busy: busyOf(b.port!) }));
  const busiest = ports.filter((b) => b.busy !== null).sort((a, b) => b.busy! - a.busy!)[0];
  const idle = ports.filter((b) => (b.id === "rollout" || b.id === "learner") && b.busy !== null);
  const worst = idle.sort((a, b) => a.busy! - b.busy!)[0];
  const most = busiest ? ` Busiest: ${busiest.portName}, ${percent(busiest.busy)}.` : "";
  const verdict = !worst
    ? "No data yet."
    : worst.busy! > 0.85
      ? `Engine and trainer ${props.running ? "are" : "were"} both busy: no bubble.`
      : props.running
        ? `The bubble: the ${worst.portName} waits ${percent(1 - worst.busy!)} of the time.${most}`
        : `The bubble over the whole run: the ${worst.portName} waited ${percent(1 - worst.busy!)} of the time.${most}`;
  const save = () => {
    const rows = BOXES.map((b) => ({ name: b.title, loop: tick[`busy_loop_${b.loop}`], port: b.port ? tick[`busy_port_${b.port}`] : null }));
    saveCsv("Loops", [
      { name: "part", values: rows.map((r) => r.name) },
      { name: "loop_busy", values: rows.map((r) => r.loop) },
      { name: "port_busy", values: rows.map((r) => r.port) },
    ]);
  };
  return (
    <Panel
      title="Loops"
      actions={
        <>
          <button type="button" class="quiet" aria-label="Save Loops as PNG" onClick={() => svg.current && saveSvgPng("Loops", svg.current)}>
            PNG
          </button>
          <button type="button" class="quiet" aria-label="Save Loops as CSV" onClick={save}>
            CSV
          </button>
        </>
      }
    >
      <p class="verdict">{verdict}</p>
      <div ref={box} class="loops">
        <svg ref={svg} viewBox={`0 0 ${layout.width} ${layout.height}`} role="img" aria-label={`The loops. ${verdict} ${BOXES.map((b) => `${b.title}: ${b.detail(tick)}`).join("; ")}`}>
          <defs>
            <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
              <path d="M0 0L8 4L0 8z" class="tip" />
            </marker>
          </defs>
          {ARROWS.map((arrow) => (
            <ArrowShape key={arrow.name} arrow={arrow} route={layout.routes[`${arrow.from}-${arrow.to}`]} tick={tick} flow={arrow.flow ? flowOf(ticks, arrow.flow) : null} />
          ))}
          {BOXES.map((b) => (
            <BoxShape key={b.id} box={b} at={layout.at[b.id]} width={layout.box} tick={tick} busy={b.port ? busyOf(b.port) : null} />
          ))}
        </svg>
      </div>
    </Panel>
  );
}

function BoxShape(props: { box: Box; at: Point; width: number; tick: Json; busy: number | null }) {
  const [cx, cy] = props.at;
  const W = props.width;
  const pad = W < 160 ? 9 : 12;
  const x = cx - W / 2;
  const y = cy - H / 2;
  const matters = props.box.port === "engine" || props.box.port === "trainer";
  const tone = !matters || props.busy === null ? "" : props.busy > 0.85 ? "full" : props.busy > 0.5 ? "some" : "low";
  return (
    <g class={`loop-box ${tone}`}>
      <rect class="frame" x={x} y={y} width={W} height={H} rx="9" />
      <text class="title" x={x + pad} y={y + 22}>
        {props.box.title}
        {props.tick[`workers_${props.box.id}`] !== undefined && <tspan class="small">{` ×${props.tick[`workers_${props.box.id}`]}`}</tspan>}
      </text>
      <text class="small" x={x + W - pad} y={y + 22} text-anchor="end">
        {W < 160 ? "" : "loop "}
        {percent(props.tick[`busy_loop_${props.box.loop}`])}
      </text>
      <text class="small" x={x + pad} y={y + 42}>
        {props.box.detail(props.tick)}
      </text>
      {props.box.port && (
        <>
          <text class="small" x={x + pad} y={y + 62}>
            {props.box.portName}
          </text>
          <text class="busy" x={x + W - pad} y={y + 62} text-anchor="end">
            {props.busy === null ? "–" : `${percent(props.busy)} busy`}
          </text>
          <rect class="bar-back" x={x + pad} y={y + 69} width={W - 2 * pad} height="8" rx="4" />
          <rect class="bar" x={x + pad} y={y + 69} width={Math.max(0, (W - 2 * pad) * (props.busy ?? 0))} height="8" rx="4" />
        </>
      )}
    </g>
  );
}

function ArrowShape(props: { arrow: Arrow; route: Layout["routes"][string]; tick: Json; flow: number | null }) {
  const { arrow, route } = props;
  const known = arrow.depths.filter((topic) => `depth_${topic}` in props.tick);
  const depth = known.reduce((sum, topic) => sum + props.tick[`depth_${topic}`], 0);
  const parts = [known.length ? `${short(depth)} waiting` : "", props.flow !== null && props.flow > 0 ? `${short(props.flow)} ${arrow.unit ?? ""}/s` : ""];
  const heavy = depth >= 16 ? "heavy" : depth >= 4 ? "some" : "";
  return (
    <g class={`loop-arrow ${heavy}`}>
      <path d={`M${route.points.map((p) => p.join(" ")).join("L")}`} marker-end="url(#tip)" />
      <text class="name" x={route.label[0]} y={route.label[1] - 12} text-anchor={route.anchor ?? "middle"}>
        {arrow.name}
      </text>
      <text class="small" x={route.label[0]} y={route.label[1] + 3} text-anchor={route.anchor ?? "middle"}>
        {parts.filter(Boolean).join(", ")}
      </text>
    </g>
  );
}
