#!/usr/bin/env bash
# Calls in the background, learned: tasks have two parts, each checked by a tool that takes two seconds. The policy is
# warmed on demonstrations of which one call in twelve goes on in the background. Two arms train it with the same seed
# and reward.time_weight: one may call in the background, the control may not. Exits with 1 where the first does not
# shorten an episode by a quarter at a pass rate at most 2 points lower.
#
#   examples/background.sh [SEED]      writes to build/background/SEED and runs/background-SEED, runs/blocking-SEED
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=${TIDEMILL:-build/release/tidemill}
seed=${1:-1}
steps=${TIDEMILL_BACKGROUND_STEPS:-60}
minutes=${TIDEMILL_BACKGROUND_MINUTES:-1.5}  # of warm-up
out=build/background/$seed
make=examples/background.py

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

rm -rf "$out" "runs/background-$seed" "runs/blocking-$seed"
mkdir -p "$out"
say "1. A policy that seldom calls in the background"
"$tidemill" tasks model --family cfunc --context 256 --out "$out/base"
python3 $make shape "$out/base" "$out/shape"
python3 $make lessons 4000 "$seed" "$out/lessons.jsonl"
python3 $make tasks 2000 "$((seed * 10 + 1))" "$out/train.jsonl"
python3 $make tasks 64 "$((seed * 10 + 2))" "$out/eval.jsonl"
"$tidemill" warmup "$out/lessons.jsonl" --from-config "$out/shape" --out "$out/warm" --replace --seed "$seed" \
  --minutes "$minutes"
cat > "$out/run.toml" <<END
[model]
path = "$out/warm"
protocol = "chat"
[tasks]
train = "$out/train.jsonl"
eval = "$out/eval.jsonl"
[rollout]
group_size = 8
groups_per_step = 8
max_in_flight = 256
max_turns = 5
max_turn_tokens = 16
observation_tokens = 8
cache_mb = 256
[learner]
objective = "grpo"
learning_rate = 3e-4
warmup_steps = 5
[staleness]
max_steps = 1
[reward]
time_weight = 0.1
[eval]
samples = 4
before = false
[tools]
cache = 0
wait = "2s"
[[tools.command]]
name = "check"
description = "Checks the value of a part"
command = ["/bin/sh", "-c", "echo \"\$2\" > part\$1.txt", "check", "{part}", "{value}"]
BACKGROUND
END

train() {  # NAME BACKGROUND
  sed "s|^BACKGROUND\$|$2|" "$out/run.toml" > "$out/$1.toml"
  "$tidemill" --log-level warn train "$out/$1.toml" --no-web --set run.name="$1-$seed" --set run.seed="$seed" \
    --set run.steps="$steps"
  "$tidemill" runs export "$1-$seed" --eval after --out "$out/$1.jsonl"
}

say "2. The control: every call is waited for"
train blocking ""
say "3. Calls may go on in the background"
train background 'background = "allowed"\nbackground_files = true'
say "4. The two on the same 64 held-out tasks"
python3 $make report "$out/report.json" "blocking-$seed" "$out/blocking.jsonl" "background-$seed" "$out/background.jsonl"
