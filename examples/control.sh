#!/usr/bin/env bash
# The demo's control: continues supervised training on the same demonstrations for as long as the demo's reinforcement
# learning took. Run it after `examples/demo.sh SEED`, with the same seed.
#
#   examples/control.sh [SEED] [LEARNING_RATE]
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=build/release/tidemill
seed=${1:-1}
rate=${2:-4e-4}  # the final rate of the demo's supervised training; its initial rate is 2e-3
out=build/demo
minutes=${TIDEMILL_DEMO_MINUTES:-4.3}

"$tidemill" warmup "$out/demonstrations.jsonl" --model "$out/warm" --out "$out/control" --replace --seed "$seed" \
  --learning-rate "$rate" --batch-tokens 2048 --weight-decay 1.5 --evaluate-every 200 --patience 0 --keep-last --minutes "$minutes"
"$tidemill" --log-level warn eval examples/demo.toml --model "$out/control" --tasks "$out/eval.jsonl" --name "control-$seed-$rate"
