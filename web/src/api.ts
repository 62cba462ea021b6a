// The server's answers, or, in an exported report, the answers that were put into the page.

export type Json = any; // the shapes are in docs/api.md

const exportElement = document.getElementById("tidemill-export");
const exported: Record<string, Json> | null = exportElement
  ? JSON.parse(exportElement.textContent ?? "{}")
  : null;

export const isExport = exported !== null;

const TOKEN_KEY = "tidemill-token";

export function token(): string {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? "";
  } catch {
    return "";
  }
}

export function setToken(value: string): void {
  sessionStorage.setItem(TOKEN_KEY, value);
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

function headers(): Record<string, string> {
  return token() ? { Authorization: `Bearer ${token()}` } : {};
}

export async function get(target: string, signal?: AbortSignal): Promise<Json> {
  if (exported) return fromExport(exported, target);
  const response = await fetch(target, { headers: headers(), signal });
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({}));
  throw new ApiError(response.status, body.error ?? `status ${response.status}`);
}

// Ends the run the server trains; only with a token.
export async function finishRun(): Promise<void> {
  const response = await fetch("/api/admin/finish", { method: "POST", headers: headers() });
  if (!response.ok) throw new ApiError(response.status, `status ${response.status}`);
}

export async function saveNotes(run: string, notes: { tags: string[]; note: string }): Promise<void> {
  const response = await fetch(`/api/runs/${run}/notes`, { method: "POST", headers: headers(), body: JSON.stringify(notes) });
  if (response.ok) return;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(response.status, body.error ?? `status ${response.status}`);
}

function fromExport(all: Record<string, Json>, target: string): Json {
  if (target in all) return all[target];
  const path = target.split("?")[0];
  if (path === "/api/runs") {
    const name = all["/api/about"].default_run;
    const run = all[`/api/runs/${name}`];
    return { total: 1, runs: [{ name, state: run.state, summary: run.summary, counts: run.counts }] };
  }
  const near = Object.keys(all).find((key) => key.split("?")[0] === path);
  if (near) return all[near];
  throw new ApiError(404, "Not in the report; use: tidemill view");
}

export interface LiveEvent {
  kind: string;
  data: Json;
}

// Follows a run's events until the signal says stop, coming back by itself after every interruption
// with what it had last.
export async function follow(
  run: string,
  after: () => number | null,
  onEvent: (event: LiveEvent) => void,
  onConnected: (connected: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  let lastId: string | null = null;
  let wait = 500;
  while (!signal.aborted) {
    try {
      const start = lastId ?? after();
      const extra: Record<string, string> = start === null ? {} : { "Last-Event-ID": String(start) };
      const response = await fetch(`/api/events?run=${encodeURIComponent(run)}`, {
        headers: { ...headers(), ...extra },
        signal,
      });
      if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
      onConnected(true);
      wait = 500;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        rest += value;
        const frames = rest.split("\n\n");
        rest = frames.pop() ?? "";
        for (const frame of frames) {
          const event = parseFrame(frame);
          if (event.id) lastId = event.id;
          if (event.kind) onEvent({ kind: event.kind, data: event.data });
        }
      }
    } catch {
      if (signal.aborted) return;
    }
    onConnected(false);
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 8000);
  }
}

function parseFrame(frame: string): { kind: string; id: string; data: Json } {
  let kind = "";
  let id = "";
  let data: Json = null;
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    if (line.startsWith("id: ")) id = line.slice(4);
    if (line.startsWith("data: ")) {
      try {
        data = JSON.parse(line.slice(6));
      } catch {
        kind = "";
      }
    }
  }
  return { kind, id, data };
}
