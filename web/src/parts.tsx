// Small pieces that several views use.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { percent, words } from "./format";

export function Stat(props: { name: string; value: string; note?: string; tone?: string }) {
  return (
    <div class={`stat ${props.tone ?? ""}`}>
      <span class="name">{props.name}</span>
      <span class="value">{props.value}</span>
      {props.note && <span class="note">{props.note}</span>}
    </div>
  );
}

export function Badge(props: { text: string; tone?: string }) {
  return <span class={`badge ${props.tone ?? toneOf(props.text)}`}>{words(props.text)}</span>;
}

export function toneOf(text: string): string {
  if (["ok", "done", "solved", "submitted", "used", "running", "improving", "ready", "here"].includes(text)) return "good";
  if (["failed", "stale", "given_up", "unsolved", "unavailable", "regressed", "too_old", "lost"].includes(text)) return "bad";
  if (["timeout", "cpu_limit", "memory_limit", "output_limit", "signal", "interrupted", "unfinished", "invalid", "malformed", "max_tokens", "max_turns", "context", "leaving"].includes(text)) return "warn";
  return "";
}

export function Problem(props: { error: string }) {
  return props.error ? (
    <p class="problem" role="alert">
      {props.error}
    </p>
  ) : null;
}

export function Loading() {
  return (
    <p class="empty" role="status">
      Loading…
    </p>
  );
}

export function Panel(props: { title: string; children: ComponentChildren; actions?: ComponentChildren; class?: string }) {
  return (
    <section class={`panel ${props.class ?? ""}`}>
      <header>
        <h2>{props.title}</h2>
        {props.actions && <span class="actions">{props.actions}</span>}
      </header>
      {props.children}
    </section>
  );
}

// What is typed stays until it is done, whatever is shown anew meanwhile.
export function Field(props: { value: string; onDone: (value: string) => void; onTyped?: (value: string) => void } & Pick<preact.JSX.InputHTMLAttributes, "type" | "step" | "list" | "placeholder">) {
  const { value, onDone, onTyped, ...rest } = props;
  const [typed, setTyped] = useState(value);
  const type = (event: preact.JSX.TargetedEvent<HTMLInputElement>) => {
    setTyped(event.currentTarget.value);
    onTyped?.(event.currentTarget.value);
  };
  return <input {...rest} value={typed} onInput={type} onChange={(event) => onDone(event.currentTarget.value)} />;
}

// A share between 0 and 1 as a bar, for a table.
export function Bar(props: { share: number | null }) {
  return props.share === null ? (
    <>–</>
  ) : (
    <span class="share">
      <i style={{ width: `${Math.round(100 * props.share)}%` }} />
      <span>{percent(props.share)}</span>
    </span>
  );
}

export function Pages(props: { offset: number; limit: number; total: number; onMove: (offset: number) => void }) {
  const last = Math.min(props.total, props.offset + props.limit);
  return (
    <nav class="pages" aria-label="Pages">
      <button type="button" disabled={props.offset === 0} onClick={() => props.onMove(Math.max(0, props.offset - props.limit))}>
        ← Previous
      </button>
      <span>
        {props.total === 0 ? "none" : `${(props.offset + 1).toLocaleString("en-US")} to ${last.toLocaleString("en-US")} of ${props.total.toLocaleString("en-US")}`}
      </span>
      <button type="button" disabled={last >= props.total} onClick={() => props.onMove(props.offset + props.limit)}>
        Next →
      </button>
    </nav>
  );
}

// A line through shares between 0 and 1, small enough for a table.
export function Spark(props: { values: (number | null)[]; label: string }) {
  const width = 120;
  const height = 26;
  const lines: string[][] = [[]]; // a new one after each gap
  props.values.forEach((value, i) => {
    if (value === null) return void (lines[lines.length - 1].length > 0 && lines.push([]));
    const x = (i / Math.max(1, props.values.length - 1)) * (width - 4) + 2;
    lines[lines.length - 1].push(`${x.toFixed(1)},${(height - 3 - value * (height - 6)).toFixed(1)}`);
  });
  const last = lines.flat().pop()?.split(",");
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={props.label}>
      <line x1="0" y1={height - 3} x2={width} y2={height - 3} />
      {lines.map((points, i) =>
        points.length === 1 ? <circle key={i} cx={points[0].split(",")[0]} cy={points[0].split(",")[1]} r="1.2" /> : <polyline key={i} points={points.join(" ")} />,
      )}
      {last && <circle cx={last[0]} cy={last[1]} r="2.2" />}
    </svg>
  );
}
