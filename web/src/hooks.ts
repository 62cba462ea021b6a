import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";

import { ApiError, follow, get, isExport, type Json } from "./api";

// What is known live of the run that is shown.
export interface Live {
  run: string;
  state: string;
  tick: Json | null; // the newest
  connected: boolean;
  beat: number; // goes up when there is something new to load, every few seconds at most
}

export const LiveContext = createContext<Live & { fleet: Json | null }>({ run: "", state: "", tick: null, connected: false, beat: 0, fleet: null });
export const useLive = () => useContext(LiveContext);

export interface Loaded {
  data: Json | null;
  error: string;
  status: number;
}

// The answer to a target, loaded again when `beat` changes; the old answer stays until the new is there.
export function useApi(target: string | null, beat = 0): Loaded {
  const [loaded, setLoaded] = useState<Loaded & { target: string | null }>({
    data: null,
    error: "",
    status: 0,
    target: null,
  });
  useEffect(() => {
    if (target === null) return;
    const abort = new AbortController();
    get(target, abort.signal)
      .then((data) => abort.signal.aborted || setLoaded({ data, error: "", status: 200, target }))
      .catch((error) => {
        if (abort.signal.aborted) return;
        const status = error instanceof ApiError ? error.status : 0;
        setLoaded((old) => ({
          data: old.target === target ? old.data : null,
          error: status === 0 ? "The server does not answer." : error.message,
          status,
          target,
        }));
      });
    return () => abort.abort();
  }, [target, beat]);
  const stale = target !== null && loaded.target !== null && sameThing(loaded.target, target) === false;
  return stale ? { data: null, error: "", status: 0 } : loaded;
}

// The answers to several targets, in their order; null until one is there. They are loaded again when `beat` changes.
export function useApis(targets: string[], beat = 0): { data: (Json | null)[]; error: string } {
  const [loaded, setLoaded] = useState<{ answers: Map<string, Json>; error: string }>({ answers: new Map(), error: "" });
  const key = targets.join("\n");
  useEffect(() => {
    const abort = new AbortController();
    for (const target of targets) {
      get(target, abort.signal)
        .then((data) => abort.signal.aborted || setLoaded((old) => ({ answers: keep(old.answers, targets).set(target, data), error: "" })))
        .catch((error) => abort.signal.aborted || setLoaded((old) => ({ ...old, error: error instanceof ApiError ? error.message : "The server does not answer." })));
    }
    return () => abort.abort();
  }, [key, beat]);
  return { data: targets.map((target) => loaded.answers.get(target) ?? null), error: loaded.error };
}

function keep(answers: Map<string, Json>, targets: string[]): Map<string, Json> {
  return new Map([...answers].filter(([target]) => targets.includes(target)));
}

// Another page of the same list may show the old one meanwhile; another run or episode may not.
function sameThing(a: string, b: string): boolean {
  return a.split("?")[0] === b.split("?")[0];
}

// Goes up every so often while the page is looked at: for what changes without an event of the run.
export function useEvery(ms: number): number {
  const [turns, setTurns] = useState(0);
  useEffect(() => {
    if (isExport) return;
    const timer = setInterval(() => document.hidden || setTurns((n) => n + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return turns;
}

const BEAT_MS = 3000;

export function useFollow(run: string): Live {
  const [live, setLive] = useState<Live>({ run, state: "", tick: null, connected: false, beat: 0 });
  const lastBeat = useRef(0);
  useEffect(() => {
    setLive((old) => ({ run, state: "", tick: null, connected: false, beat: old.beat + 1 }));
    if (!run || isExport) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const beatSoon = () => {
      if (timer) return;
      timer = setTimeout(
        () => {
          timer = undefined;
          lastBeat.current = Date.now();
          setLive((old) => ({ ...old, beat: old.beat + 1 }));
        },
        Math.max(100, BEAT_MS - (Date.now() - lastBeat.current)),
      );
    };
    follow(
      run,
      () => null,
      ({ kind, data }) => {
        if (kind === "hello" || kind === "state") {
          setLive((old) => ({ ...old, state: data.state }));
          if (kind === "state") beatSoon();
          return;
        }
        if (kind === "tick") setLive((old) => ({ ...old, tick: data }));
        beatSoon();
      },
      (connected) => {
        setLive((old) => ({ ...old, connected }));
        if (connected) beatSoon();
      },
      abort.signal,
    );
    return () => {
      abort.abort();
      if (timer) clearTimeout(timer);
    };
  }, [run]);
  return live;
}

export interface Route {
  run: string;
  view: string;
  parts: string[];
  query: URLSearchParams;
}

// "#/RUN/VIEW/more?x=1"
export function parseHash(hash: string): Route {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return {
    run: parts[0] ?? "",
    view: parts[1] ?? "overview",
    parts: parts.slice(2),
    query: new URLSearchParams(search),
  };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseHash(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parseHash(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

// The same view with other words behind the question mark; nothing is added to the history.
export function setQuery(route: Route, changes: Record<string, string>): void {
  const query = new URLSearchParams(route.query);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  location.replace(link(route.run, route.view, ...route.parts) + (text && `?${text}`));
}

export function link(run: string, view: string, ...parts: (string | number)[]): string {
  return `#/${[run, view, ...parts].map((part) => encodeURIComponent(String(part))).join("/")}`;
}

export function useWidth(): [preact.RefObject<HTMLDivElement>, number] {
  const element = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!element.current) return;
    const observer = new ResizeObserver((entries) => setWidth(Math.floor(entries[0].contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
