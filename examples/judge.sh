#!/usr/bin/env bash
# A small judge, trained and checked on one machine without a GPU: cases are made from programs whose results are
# known, a small model learns to label them, `tidemill serve` puts it behind an endpoint, and `tidemill judge check`
# asks it about 5,000 cases it has not seen and 200 that try to instruct it.
#
#   examples/judge.sh [SEED] [CASES] [MINUTES]     writes to build/judge
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=build/release/tidemill
seed=${1:-1}
cases=${2:-5000}
minutes=${3:-8}
out=build/judge
rm -rf "$out"
mkdir -p "$out"

"$tidemill" judge cases --demonstrations --instructing 0.15 --count 60000 --seed "$((seed * 10 + 1))" \
  --out "$out/demonstrations.jsonl"
"$tidemill" judge cases --count "$cases" --seed "$((seed * 10 + 2))" --out "$out/held_out.jsonl"
"$tidemill" judge cases --count 200 --instructing 1 --seed "$((seed * 10 + 3))" --out "$out/instructing.jsonl"
"$tidemill" judge model --out "$out/shape" --seed "$seed"
"$tidemill" warmup "$out/demonstrations.jsonl" --from-config "$out/shape" --out "$out/model" --seed "$seed" \
  --batch-tokens 8192 --evaluate-every 100 --patience 8 --cuts 2 --minutes "$minutes"

"$tidemill" serve "$out/model" --port 0 > "$out/url" 2> "$out/serve.log" &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
until [ -s "$out/url" ]; do
  kill -0 "$server"
  sleep 0.2
done
url=$(head -n 1 "$out/url")
cat > "$out/judge.toml" << TOML
[[judge]]
name = "small"
endpoint = "${url%/}/v1"
model = "model"
task = "next_state"
template = "compact"
answer = "token"
temperature = 0
max_tokens = 4
concurrency = 16
TOML
cat "$out/held_out.jsonl" "$out/instructing.jsonl" > "$out/all.jsonl"
"$tidemill" judge check "$out/all.jsonl" --config "$out/judge.toml" --json | tee "$out/check.json"
"$tidemill" judge check "$out/all.jsonl" --config "$out/judge.toml"
