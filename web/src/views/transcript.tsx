// An episode turn by turn: what the model wrote, token by token, what the tools said, what it earned.
import { useMemo } from "preact/hooks";

import type { Json } from "../api";
import { Code } from "../code";
import { duration, words } from "../format";
import { Badge, Panel } from "../parts";
import { ShownCases } from "./memory";

// The same version has the same colour in everything that is shown together.
function versionClass(version: number | null, base: number): string {
  return version === null ? "" : `v${(((version - base) % 6) + 6) % 6}`;
}

export function TokenColours(props: { value: string; onChange: (value: string) => void; versions: [number | null, number | null] }) {
  const [low, high] = props.versions;
  const versions = low === null || high === null || !Number.isFinite(low) ? [] : Array.from({ length: Math.min(6, high - low + 1) }, (_, i) => low + i);
  const choices = [
    ["plain", "Code"],
    ["logprob", "Log-probability"],
    ["version", "Policy version"],
  ];
  return (
    <fieldset class="choices">
      <legend>Colour tokens by</legend>
      {choices.map(([value, label]) => (
        <label key={value} class={props.value === value ? "on" : ""}>
          <input type="radio" name="colours" value={value} checked={props.value === value} onChange={() => props.onChange(value)} />
          {label}
        </label>
      ))}
      {props.value === "logprob" && (
        <span class="scale" aria-label="From likely to unlikely">
          {[0, 1, 2, 3, 4, 5].map((level) => (
            <i key={level} class={`lp${level}`} />
          ))}
          <span>likely → unlikely</span>
        </span>
      )}
      {props.value === "version" && (
        <span class="scale" aria-label="Policy versions">
          {versions.map((version) => (
            <i key={version} class={`named ${versionClass(version, low!)}`}>
              {version}
            </i>
          ))}
          {high! - low! > 5 && <span>and so on to {high}</span>}
        </span>
      )}
    </fieldset>
  );
}

// Six steps of surprise: probability over 90 %, 60 %, 30 %, 10 %, 2 %, less.
function level(logprob: number | null): number {
  if (logprob === null || logprob === undefined) return 0;
  const bounds = [-0.105, -0.51, -1.2, -2.3, -3.9];
  const found = bounds.findIndex((bound) => logprob >= bound);
  return found < 0 ? 5 : found;
}

interface Token {
  text: string;
  logprob: number | null;
  version: number | null;
}

function tokensOf(turn: Json): Token[] {
  const version: (number | null)[] = [];
  for (const run of turn.versions) for (let i = 0; i < run.tokens; ++i) version.push(run.version);
  return turn.tokens.map((text: string, i: number) => ({ text, logprob: turn.logprobs[i] ?? null, version: version[i] ?? null }));
}

export function Tokens(props: { turn: Json; colours: string; base: number }) {
  const tokens = useMemo(() => tokensOf(props.turn), [props.turn]);
  if (props.colours === "plain") return <Code text={tokens.map((t) => t.text).join("")} />;
  return (
    <pre class="code tokens">
      {tokens.map((token, i) => {
        const kind = props.colours === "logprob" ? `lp${level(token.logprob)}` : versionClass(token.version, props.base);
        const p = token.logprob === null ? "" : `, probability ${(100 * Math.exp(token.logprob)).toFixed(1)} %`;
        return (
          <span key={i} class={kind} title={`version ${token.version ?? "?"}${p}`}>
            {token.text || "∅" /* a token without text was written as well */}
          </span>
        );
      })}
    </pre>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function Call(props: { call: Json }) {
  const c = props.call;
  return (
    <div class="call">
      <p>
        <strong>{c.tool}</strong> <Badge text={c.cancelled ? "cancelled" : c.skipped ? "skipped" : c.outcome} />
        {c.handle && <Badge text={`in the background as ${c.handle}`} />}
        {c.asked_token > 0 && <Badge text={`begun at token ${c.asked_token}`} />}
        {c.tests_total > 0 && <Badge text={`${c.tests_passed}/${c.tests_total} tests`} tone={c.tests_passed === c.tests_total ? "good" : "warn"} />}
        <span class="soft">
          {" "}
          {duration(c.wait_ms)}, of which {duration(c.run_ms)} in the box{c.retries ? `, ${c.retries} retries` : ""}
        </span>
      </p>
      {c.arguments && c.arguments !== "{}" && (
        <details>
          <summary>arguments</summary>
          <Code text={pretty(c.arguments)} />
        </details>
      )}
      {c.text && <pre class="code result">{c.text}</pre>}
    </div>
  );
}

function Turn(props: { turn: Json; number: number; colours: string; base: number; reward?: number }) {
  const t = props.turn;
  const list = t.versions.map((v: Json) => v.version);
  return (
    <section class="turn">
      {t.prompt && (
        <details open>
          <summary>Prompt of turn {props.number}, which begins a branch: it saw nothing of the turns before it</summary>
          <pre class="code">{t.prompt}</pre>
        </details>
      )}
      <h3>
        Turn {props.number}{" "}
        <span class="soft">
          {t.tokens_total} tokens, version {[...new Set(list)].join(" then ")}, log-probability {t.logprob?.toFixed(1) ?? "–"}, {duration(t.finished_ms - t.started_ms)}
          {props.reward !== undefined && `, turn reward ${props.reward.toFixed(2)}`}
        </span>
      </h3>
      <Tokens turn={t} colours={props.colours} base={props.base} />
      {t.tokens.length < t.tokens_total && <p class="note">The first {t.tokens.length} tokens are shown.</p>}
      {t.malformed && <p class="problem">Malformed call: {t.malformed}</p>}
      {t.end === "length" && <p class="note">Cut off at the token limit.</p>}
      {t.end === "interrupted" && <p class="note">Ended by the result of a background call.</p>}
      {t.delivered?.length > 0 && <p class="note">Results delivered behind it: {t.delivered.join(", ")}.</p>}
      {t.calls.map((call: Json, i: number) => (
        <Call key={i} call={call} />
      ))}
      {t.calls.length === 0 && t.observation && <pre class="code result">{t.observation}</pre>}
    </section>
  );
}

// Where the episode's time went; what is left passed between the parts of the system.
function TimeBar(props: { time: Json | null }) {
  if (!props.time) return null;
  const parts: [string, number][] = [
    ["generating", props.time.generating_ms],
    ["waiting for tools", props.time.tool_ms],
    ["waiting for a place", props.time.place_ms],
  ];
  const sum = parts.reduce((total, [, ms]) => total + ms, 0);
  if (sum <= 0) return null;
  return (
    <div class="timebar">
      <div class="bar" role="img" aria-label={parts.map(([name, ms]) => `${name} ${duration(ms)}`).join(", ")}>
        {parts.map(([name, ms], i) => (
          <i key={name} class={`v${2 * i}`} style={{ width: `${(100 * ms) / sum}%` }} title={`${name}: ${duration(ms)}`} />
        ))}
      </div>
      <p class="note">Time: {parts.map(([name, ms]) => `${name} ${duration(ms)}`).join(", ")}.</p>
    </div>
  );
}

function Verdict(props: { verdict: Json; episode: Json }) {
  const v = props.verdict;
  const e = props.episode;
  return (
    <section class="verdict-box">
      <h3>
        Verdict <Badge text={!v ? "none yet" : !v.scored ? "unscorable" : v.solved ? "solved" : "not solved"} tone={v?.solved ? "good" : v?.scored ? "bad" : "warn"} />
        {v?.scored && <strong> reward {v.reward.toFixed(3)}</strong>}
      </h3>
      {v?.cause && <p class="problem">{v.cause}</p>}
      {e.stale_cause && <p class="problem">Stale: {e.stale_cause}</p>}
      {v?.parts.length > 0 && (
        <table class="plain">
          <thead>
            <tr>
              <th>Scorer</th>
              <th class="num">Value</th>
              <th class="num">Weight</th>
              <th>Comment</th>
            </tr>
          </thead>
          <tbody>
            {v.parts.map((part: Json) => (
              <tr key={part.scorer}>
                <td>{part.scorer}</td>
                <td class="num">{part.value.toFixed(3)}</td>
                <td class="num">{part.weight}</td>
                <td>{part.comment}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {v?.diagnostics.map((d: Json, i: number) => (
        <p key={i} class="note">
          {d.file}:{d.line}: {d.severity}: {d.message}
        </p>
      ))}
      <TimeBar time={e.time} />
      <p class="note">
        Fate: {words(e.fate)}
        {e.fate_reason && ` (${e.fate_reason})`}
        {e.used_by.length > 0 && `, used by step ${e.used_by.join(", ")}`}. Ended by {words(e.end)}.
      </p>
    </section>
  );
}

// A unified diff, line by line.
function Diff(props: { text: string }) {
  const kind = (line: string) => (/^(\+\+\+|---|diff |index )/.test(line) ? "d-file" : line.startsWith("@@") ? "d-hunk" : line.startsWith("+") ? "d-new" : line.startsWith("-") ? "d-old" : "");
  return (
    <pre class="code diff">
      {props.text.split("\n").map((line, i) => (
        <span key={i} class={kind(line)}>
          {line + "\n"}
        </span>
      ))}
    </pre>
  );
}

// What the agent's program printed, and what it changed.
function AgentOutput(props: { episode: Json; open: boolean }) {
  const { log, diff } = props.episode;
  return (
    <>
      {log?.text && (
        <details open={props.open}>
          <summary>
            What the agent printed{log.truncated && ` (the last ${log.text.length.toLocaleString("en-US")} characters of ${log.bytes.toLocaleString("en-US")} bytes)`}
          </summary>
          <pre class="code result">{log.text}</pre>
        </details>
      )}
      {diff && (
        <details open={props.open}>
          <summary>What it changed</summary>
          <Diff text={diff} />
        </details>
      )}
    </>
  );
}

export function Transcript(props: { run: string; episode: Json; colours: string; base?: number; compact?: boolean }) {
  const e = props.episode;
  const base = props.base ?? e.min_version ?? 0;
  const body = (
    <>
      <Verdict verdict={e.verdict} episode={e} />
      {e.text === "ids" && <p class="note">The model's tokenizer is not available, so token ids are shown.</p>}
      <ShownCases run={props.run} cases={e.shown_cases ?? []} />
      <details open={!props.compact}>
        <summary>Prompt ({e.prompt_tokens} tokens)</summary>
        <pre class="code">{e.prompt}</pre>
      </details>
      {e.turn_list.map((turn: Json, i: number) => (
        <Turn key={i} turn={turn} number={i + 1} colours={props.colours} base={base} reward={e.verdict?.turn_rewards?.[i]} />
      ))}
      <AgentOutput episode={e} open={!props.compact} />
      {!props.compact &&
        e.files.map((file: Json) => (
          <details key={file.path}>
            <summary>{file.path} at the end</summary>
            {file.content === null ? <p class="note">Kept as blob {file.hash}</p> : <Code text={file.content} />}
          </details>
        ))}
    </>
  );
  return props.compact ? <div class="transcript">{body}</div> : <Panel title="Transcript" class="transcript">{body}</Panel>;
}
