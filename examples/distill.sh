#!/usr/bin/env bash
# A teacher of 1.1 million parameters into a student of 170 thousand. The student has been trained on its
# demonstrations until its held-out loss stopped falling. Then it gets the same time twice: once for more supervised
# training on these demonstrations, once for distillation on what it writes itself (docs/judges.md). Prints both pass
# rates on held-out tasks; exits with 1 where distillation is not ahead.
#
#   examples/distill.sh [SEED]     writes to build/distill and runs/distill-SEED; the teacher is made once
#
# TIDEMILL_DISTILL_TEACHER: a teacher that is there. TIDEMILL_DISTILL_MINUTES: of each of the two.
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=${TIDEMILL:-build/release/tidemill}
seed=${1:-1}
out=build/distill/$seed
run=distill-$seed
minutes=${TIDEMILL_DISTILL_MINUTES:-1.5}
teacher=${TIDEMILL_DISTILL_TEACHER:-build/distill/teacher}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

evaluate() {  # MODEL NAME: the share of held-out tasks solved, one answer each, eight samples
  rm -rf "runs/$run-$2"
  "$tidemill" --log-level warn eval --model "$1" --tasks "$out/eval.jsonl" --name "$run-$2" --json \
    --set model.protocol=compact --set rollout.max_turns=1 --set rollout.max_turn_tokens=24 \
    --set eval.samples=8 | python3 -c 'import json, sys; print("%.4f" % json.load(sys.stdin)["eval"]["before"]["pass_rate"])'
}

rm -rf "$out" "runs/$run"
mkdir -p "$out"
if [ ! -e "$teacher/config.json" ]; then
  say "1. The teacher: 1.1 million parameters, 60,000 demonstrations"
  "$tidemill" tasks generate --family cfunc --count 60000 --seed 9001 --second-turns 0 --out build/distill/teacher.jsonl \
    --with-solutions build/distill/teacher-demonstrations.jsonl
  "$tidemill" tasks model --family cfunc --width 128 --feed-forward 384 --layers 5 --out build/distill/teacher-shape
  "$tidemill" warmup build/distill/teacher-demonstrations.jsonl --from-config build/distill/teacher-shape \
    --out "$teacher" --seed 1 --batch-tokens 4096 --evaluate-every 200 --patience 0 --held-out 0.02 --minutes 6 --threads 2
fi

say "2. The student: 170 thousand parameters, 5,000 demonstrations, until its held-out loss stops falling"
"$tidemill" tasks generate --family cfunc --count 5000 --seed "$((seed * 10 + 1))" --second-turns 0 \
  --out "$out/demonstrated.jsonl" --with-solutions "$out/demonstrations.jsonl"
"$tidemill" tasks generate --family cfunc --count 7000 --seed "$((seed * 10 + 2))" --out "$out/train.jsonl"
"$tidemill" tasks generate --family cfunc --count 300 --seed "$((seed * 10 + 3))" --split heldout --out "$out/eval.jsonl"
"$tidemill" tasks model --family cfunc --out "$out/shape"
"$tidemill" warmup "$out/demonstrations.jsonl" --from-config "$out/shape" --out "$out/student" --seed "$seed" \
  --batch-tokens 2048 --evaluate-every 100 --patience 3 --max-steps 2500 --minutes 2 --threads 2

say "3. $minutes minutes more of supervised training"
"$tidemill" warmup "$out/demonstrations.jsonl" --model "$out/student" --out "$out/supervised" --seed "$seed" \
  --batch-tokens 2048 --learning-rate 0.0004 --evaluate-every 50 --patience 0 --minutes "$minutes" --threads 2

say "4. $minutes minutes of distillation"
"$tidemill" --log-level warn train --no-web --set run.name="$run" --set run.seed="$seed" --set run.steps=100000 \
  --set run.minutes="$minutes" --set model.path="$out/student" --set model.protocol=compact \
  --set tasks.train="$out/train.jsonl" --set rollout.group_size=2 --set rollout.groups_per_step=64 \
  --set rollout.max_in_flight=256 --set rollout.max_turns=1 --set rollout.max_turn_tokens=24 --set staleness.max_steps=1 \
  --set staleness.hard_max_steps=4 --set learner.objective=distill --set learner.learning_rate=1e-3 \
  --set learner.warmup_steps=5 --set learner.checkpoint_every_steps=0 --set teacher.model="$teacher" \
  --set reward.weights=length=1

say "5. Held-out tasks solved by one answer"
distilled=$(find "runs/$run/checkpoints" -maxdepth 1 -name 'step-*' | sort | tail -1)
t=$(evaluate "$teacher" teacher) s=$(evaluate "$out/student" student)
c=$(evaluate "$out/supervised" supervised) d=$(evaluate "$distilled" distilled)
echo "seed $seed: teacher $t, student $s, more supervised training $c, distillation $d"
python3 -c "import sys; sys.exit(0 if $d > $c else 1)"
