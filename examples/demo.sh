#!/usr/bin/env bash
# The demo, on one machine without a GPU: a small policy learns to write C functions. First by supervised training on
# a limited set of demonstrations, until its held-out loss stops falling; then by reinforcement learning on many more
# tasks without solutions, with real compile and test calls in a real sandbox.
#
#   examples/demo.sh [SEED]            writes to build/demo and runs/demo-SEED
#   PROOF=1 examples/demo.sh [SEED]    and then the same once more, for as long, with answers proved or refuted instead
#                                      of run (docs/verifiers.md), in runs/demo-SEED-proof; status 1 if that gives
#                                      less than 2.5 times the episodes or no higher pass rate
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -e "$here/../CMakeLists.txt" ]; then
  cd "$here/.."
  tidemill=build/release/tidemill
else
  tidemill=tidemill  # installed: writes below the current folder
fi
seed=${1:-1}
out=build/demo
run=demo-$seed
minutes=${TIDEMILL_DEMO_MINUTES:-4.3}  # of reinforcement learning, including the evaluation before it

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

rm -rf "$out" "runs/$run" "runs/$run-proof"
mkdir -p "$out"
say "1. Tasks: functions of two ints, examples in, body out; training and held-out tasks share no behaviour"
"$tidemill" tasks generate --family cfunc --count 5000 --seed "$((seed * 10 + 1))" --out "$out/demonstrated.jsonl" \
  --with-solutions "$out/demonstrations.jsonl" --slips 0.2 --second-turns 0.2
"$tidemill" tasks generate --family cfunc --count 7000 --seed "$((seed * 10 + 2))" --out "$out/train.jsonl"
"$tidemill" tasks generate --family cfunc --count 300 --seed "$((seed * 10 + 3))" --split heldout --out "$out/eval.jsonl"
"$tidemill" tasks model --family cfunc --out "$out/shape"

# The plateau ends it, after 2,600 updates with seed 1. The two limits are for what never gets there: updates, and for a
# machine less than half as fast as those of docs/training.md the clock, so that the whole takes 8 minutes at most.
say "2. Supervised training from scratch, until the held-out loss stops falling"
"$tidemill" warmup "$out/demonstrations.jsonl" --from-config "$out/shape" --out "$out/warm" --seed "$seed" \
  --batch-tokens 2048 --weight-decay 1.5 --evaluate-every 100 --patience 3 --cuts 1 --max-steps 4000 \
  --minutes 3

train() {  # NAME, then further settings
  local name=$1
  shift
  "$tidemill" --log-level warn train "$here/demo.toml" --set run.name="$name" --set run.seed="$seed" \
    --set run.steps=100000 --set run.minutes="$minutes" "$@"
}

say "3. Reinforcement learning: generate, compile, test and learn at the same time (evaluated before and after)"
train "$run"

if [ "${PROOF:-}" = 1 ]; then
  say "4. The same from the same weights, for as long: answers are proved or refuted, and evaluations still run the tests"
  train "$run-proof" --set "reward.weights={proof=1.0}" --set tools.interpret=true
  say "Execution against proofs"
  "$tidemill" runs compare "$run" "$run-proof"
  "$here/proof_report.py" "runs/$run" "runs/$run-proof"
fi

say "Where to look"
echo "  $tidemill runs show $run                 the summary again"
echo "  $tidemill runs episodes $run --worst 5   transcripts"
echo "  runs/$run/metrics.jsonl                  metrics of every step and second as JSON"
