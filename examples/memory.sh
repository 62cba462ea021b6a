#!/usr/bin/env bash
# Learning while the weights stand still: a small policy works on projects whose helper functions have names that say
# nothing, and remembers which of them did what. Four ways on the same 500 tasks: without memory, with the most similar
# cases, with those that were worth most, and with a right case given (docs/memory.md). Then one run of the whole
# runtime with memory alone. At most 10 minutes on two cores, most of them for the policy, which is made once: delete
# build/memory/policy for another. Exits with 1 where the most similar cases do not take the policy to 60 % on held-out
# tasks.
#
#   examples/memory.sh [SEED]      writes to build/memory and runs/memory-SEED
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=${TIDEMILL:-build/release/tidemill}
seed=${1:-1}
minutes=${TIDEMILL_MEMORY_MINUTES:-6}  # of warm-up
out=build/memory/$seed
policy=build/memory/policy
begun=build/memory/begun

part() {  # SHARE of the warm-up, in minutes
  awk "BEGIN { print $minutes * $1 }"
}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

rm -rf "$out" "runs/memory-$seed"
mkdir -p "$out" "$begun"
if [ ! -e "$policy/config.json" ]; then
  say "1. A policy that was shown right and failed cases of other projects"
  "$tidemill" tasks generate --family project --count 100 --seed 1001 --out "$begun/tasks.jsonl" \
    --demonstrations 400000 --with-solutions "$begun/demonstrations.jsonl"
  "$tidemill" tasks model --family project --feed-forward 128 --context 256 --out "$begun/shape"
  # Most of the time at a rate that finds the rule, the rest at one that settles it.
  "$tidemill" warmup "$begun/demonstrations.jsonl" --from-config "$begun/shape" --out "$begun/model" --replace \
    --batch-tokens 4096 --evaluate-every 500 --patience 0 --held-out 0.005 --minutes "$(part 0.75)"
  "$tidemill" warmup "$begun/demonstrations.jsonl" --model "$begun/model" --out "$policy" --replace --seed 1 \
    --batch-tokens 4096 --learning-rate 0.0005 --evaluate-every 250 --patience 0 --held-out 0.005 \
    --minutes "$(part 0.25)"
fi
"$tidemill" tasks generate --family project --count 300 --seed "$((seed * 10 + 1))" --out "$out/train.jsonl"

say "2. 500 tasks of five projects; after half of them half of the names are bound anew"
"$tidemill" bench memory --model "$policy" --seeds "$seed" --projects 5 --before 50 --after 50 --held-out 40 \
  --arms "off;nearest;learned;oracle" --search 0 | tee "$out/bench.txt" || true  # its bounds are for 24 projects

say "3. The same policy in a run that learns by memory alone"
"$tidemill" --log-level warn train --no-web --set run.name="memory-$seed" --set run.seed="$seed" --set run.steps=20 \
  --set model.path="$policy" --set model.protocol=compact --set tasks.train="$out/train.jsonl" \
  --set rollout.group_size=4 --set rollout.groups_per_step=4 --set rollout.max_turns=1 --set rollout.max_turn_tokens=12 \
  --set staleness.max_steps=1 --set memory.on=true --set memory.only=true --set memory.case_tokens=128
"$tidemill" memory list "memory-$seed" --limit 10

if grep -q '^missed: nearest: .* is under 60 %' "$out/bench.txt"; then
  echo "missed: the most similar cases take the policy to less than 60 %" >&2
  exit 1
fi
