#!/usr/bin/env bash
# Error messages as a teacher. A policy knows a project as it was before half of its variables were renamed. The binary
# reward says that an answer is wrong; the error message names what should have been used. Three arms start from the
# same policy:
#   reward   one answer, the binary reward
#   retry    a second answer after the error message, the binary reward
#   hints    as retry, and the policy that has read the message scores what it wrote before (docs/judges.md)
# Prints after how many episodes 90 % of first answers were right. Exits with 1 where hints was not the quickest.
#
#   examples/hints.sh [SEED]       writes to build/hints/SEED and runs/hints-SEED-*
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=${TIDEMILL:-build/release/tidemill}
seed=${1:-1}
steps=${TIDEMILL_HINTS_STEPS:-160}
target=${TIDEMILL_HINTS_TARGET:-0.9}
out=build/hints/$seed

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

rm -rf "runs/hints-$seed-hints" "runs/hints-$seed-retry" "runs/hints-$seed-reward"
if [ ! -e "$out/warm/config.json" ]; then
  say "1. A policy that knows the project as it was, and can follow an error message"
  mkdir -p "$out"
  "$tidemill" tasks generate --family cfunc --count 1 --seed 1 --out "$out/like.jsonl"
  python3 examples/hints.py tasks "$out/like.jsonl" "$out/train.jsonl" "$seed"
  python3 examples/hints.py demonstrations "$out/demonstrations.jsonl" 20000 "$seed"
  "$tidemill" tasks model --family project --context 64 --out "$out/shape"
  "$tidemill" warmup "$out/demonstrations.jsonl" --from-config "$out/shape" --out "$out/warm" --replace --seed "$seed" \
    --batch-tokens 2048 --evaluate-every 100 --patience 0 --max-steps 400
fi

arm() {  # NAME TURNS OPTIONS SETTING..
  local name=$1 turns=$2 options=$3
  shift 3
  say "2. $name"
  "$tidemill" --log-level warn train --no-web --set run.name="hints-$seed-$name" --set run.seed="$seed" \
    --set run.steps="$steps" --set model.path="$out/warm" --set model.protocol=compact \
    --set tasks.train="$out/train.jsonl" --set rollout.group_size=8 --set rollout.groups_per_step=8 \
    --set rollout.max_turns="$turns" --set rollout.max_turn_tokens=6 --set staleness.max_steps=1 \
    --set staleness.hard_max_steps=4 --set learner.objective=tis --set learner.learning_rate=1e-3 \
    --set learner.warmup_steps=5 --set learner.checkpoint_every_steps=0 --set "learner.options=[$options]" \
    --set "reward.weights={proof=1.0}" --set tools.interpret=true --set reward.turn_discount=0.3 \
    --set replay.drop_zero_variance=false "$@" | tail -1
}
close='"kl=k3","kl_coefficient=0.1"'  # to the first policy, in all arms
arm reward 1 "$close"
arm retry 2 "$close"
arm hints 2 "$close,\"distill_coefficient=${TIDEMILL_HINTS_WEIGHT:-1}\"" --set teacher.policy=true \
  --set teacher.hints=errors

say "3. Episodes until $target of first answers were right; seed $seed"
python3 examples/hints.py report "$target" "$out/curves.json" hints="hints-$seed-hints" reward="hints-$seed-reward" \
  retry="hints-$seed-retry"
