#!/usr/bin/env bash
# Error messages as a teacher. A policy is to learn which helper function of a project does what; the error message of
# a wrong answer names the right one. One arm learns from the binary reward of the first answer alone, one from the same
# reward with a second try, and one also from itself: the policy that has read the error message scores what it wrote
# before (docs/judges.md). Prints how many episodes each needed; exits with 1 where the last was not the quickest.
#
#   examples/hints.sh [SEED]       writes to build/hints and runs/hints-SEED-*
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=${TIDEMILL:-build/release/tidemill}
seed=${1:-1}
steps=${TIDEMILL_HINTS_STEPS:-40}
out=build/hints/$seed

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

rm -rf "$out" "runs/hints-$seed-"*
mkdir -p "$out"
say "1. A policy that can answer, and can follow an error message, but knows nothing of this project"
"$tidemill" tasks generate --family project --count 400 --seed "$seed" --out "$out/project.jsonl"
python3 examples/hints.py tasks "$out/project.jsonl" "$out/train.jsonl" 0.8
python3 examples/hints.py tasks "$out/project.jsonl" "$out/eval.jsonl" -0.2
python3 examples/hints.py demonstrations "$out/demonstrations.jsonl" 20000 "$seed"
"$tidemill" tasks model --family project --out "$out/shape"
"$tidemill" warmup "$out/demonstrations.jsonl" --from-config "$out/shape" --out "$out/warm" --seed "$seed" \
  --batch-tokens 2048 --evaluate-every 100 --max-steps 600 --minutes 2 --threads 2

arm() {  # NAME SETTING..
  local name=$1
  shift
  say "2. $name"
  "$tidemill" --log-level warn train --no-web --set run.name="hints-$seed-$name" --set run.seed="$seed" \
    --set run.steps="$steps" --set model.path="$out/warm" --set model.protocol=compact \
    --set tasks.train="$out/train.jsonl" --set tasks.eval="$out/eval.jsonl" --set rollout.group_size=4 \
    --set rollout.groups_per_step=8 --set rollout.max_turn_tokens=12 --set staleness.max_steps=1 \
    --set staleness.hard_max_steps=4 --set learner.objective=tis --set learner.learning_rate=5e-4 \
    --set learner.warmup_steps=2 --set learner.checkpoint_every_steps=0 --set reward.all_or_nothing=true \
    --set reward.turn_discount=0.3 --set eval.every_steps=4 --set eval.max_turns=1 --set eval.samples=1 \
    --set eval.after=false "$@" | tail -3
}
arm reward --set rollout.max_turns=1
arm retry --set rollout.max_turns=2
arm hints --set rollout.max_turns=2 --set teacher.policy=true --set teacher.hints=errors \
  --set 'learner.options=["distill_coefficient=0.5"]'

say "3. Episodes to a pass rate of 0.6 on held-out tasks, one answer each"
echo "seed $seed"
python3 examples/hints.py report 0.6 hints="hints-$seed-hints" reward="hints-$seed-reward" retry="hints-$seed-retry"
