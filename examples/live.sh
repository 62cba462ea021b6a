#!/usr/bin/env bash
# Live learning on one machine without a GPU: people with a taste that no prompt states work with a small policy through
# the plain `openai` client, react to its answers with thumbs, and the policy learns while it serves. Two controls: the
# same people with a policy that does not learn, and with reactions that belong to other answers.
#
#   examples/live.sh [SEED]      writes to build/live and runs/live-SEED*; needs python3 with venv and PyPI
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=${TIDEMILL:-build/release/tidemill}
seed=${1:-1}
sessions=${TIDEMILL_LIVE_SESSIONS:-2000}
out=build/live/$seed
port=${TIDEMILL_LIVE_PORT:-8473}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

server=
stop() {
  [ -z "$server" ] && return
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}
trap stop EXIT

# The server's own process listens on $port before this returns.
wait_for_server() {
  for _ in $(seq 600); do
    "$python" -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/healthz', timeout=2)" 2>/dev/null && return
    kill -0 "$server" 2>/dev/null || { echo "the server did not start: see $out/server.log" >&2; exit 1; }
    sleep 0.2
  done
  echo "the server did not answer: see $out/server.log" >&2
  exit 1
}

use() {  # name, further words
  "$python" examples/live.py use "http://127.0.0.1:$port/v1" "$seed" "$sessions" "$out/$1.jsonl" "${@:2}"
}

train() {  # name
  "$tidemill" --log-level warn train examples/live.toml --no-web --set run.name="live-$seed-$1" --set run.seed="$seed" \
    --set model.path="$out/warm" --set gateway.port="$port" 2>"$out/server.log" >/dev/null &
  server=$!
  wait_for_server
}

rm -rf "$out" "runs/live-$seed-learning" "runs/live-$seed-shuffled" "runs/live-$seed-frozen"
mkdir -p "$out"
python=build/live/venv/bin/python
if ! "$python" -c 'import openai' 2>/dev/null; then
  say "The openai package, from PyPI into build/live/venv"
  if ! { python3 -m venv build/live/venv && build/live/venv/bin/pip install --quiet openai; }; then
    echo "The openai package cannot be installed here (python3 with venv and access to PyPI are needed), so this example cannot run." >&2
    exit 3
  fi
fi

say "1. A small policy that writes dates, times and names in any of four styles"
"$python" examples/live.py prepare "$out" "$seed"
"$tidemill" --log-level warn warmup "$out/demonstrations.jsonl" --from-config "$out/shape" --out "$out/warm" --seed "$seed" \
  --batch-tokens 2048 --evaluate-every 200 --patience 2 --cuts 1 --max-steps 1600 --minutes 3 | tail -1

say "2. $sessions sessions: the policy serves and learns at once"
train learning
use live
stop

say "3. Control: the same people, a policy that does not learn"
"$tidemill" --log-level warn serve "$out/warm" --port "$port" --run "live-$seed-frozen" --set rollout.temperature=1 \
  2>"$out/server.log" >/dev/null &
server=$!
wait_for_server
use frozen
stop

say "4. Control: signals of other answers"
train shuffled
use shuffled --shuffled
stop

"$python" - "runs/live-$seed-learning/run.db" >"$out/tokens.json" <<'PY'
import json, sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
sampled = db.execute("SELECT sum(tokens) FROM session_turns").fetchone()[0] or 0
trained = db.execute("SELECT sum(tokens) FROM trajectories WHERE purpose = 3 AND uses > 0").fetchone()[0] or 0
print(json.dumps({"sampled": sampled, "trained": trained}))
PY
"$python" examples/live.py report "$seed" "$out"
