#!/usr/bin/env bash
# A teacher of a million parameters into a student of 170 thousand. The teacher was trained on 60,000 right
# demonstrations; the student has 2,500, a fifth of them wrong, and was trained on them until its held-out loss stopped
# falling at three rates. The student gets the same time twice: once for distillation on what it writes itself
# (docs/judges.md), once for more supervised training on its demonstrations. Prints both pass rates on held-out tasks;
# exits with 1 where distillation is not ahead, beyond the interval of the difference.
#
#   examples/distill.sh [SEED]     writes to build/distill and runs/distill-SEED*
#
# About 10 minutes on two cores, 5 of them for the teacher, which is made once. TIDEMILL_DISTILL_MINUTES: of
# distillation.
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=${TIDEMILL:-build/release/tidemill}
seed=${1:-1}
data=build/distill
out=$data/$seed
run=distill-$seed
minutes=${TIDEMILL_DISTILL_MINUTES:-1.5}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

since() {  # TIME: seconds
  awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $1}"
}

evaluate() {  # MODEL NAME: on held-out tasks of this seed, four answers each
  rm -rf "runs/$run-$2"
  "$tidemill" --log-level warn eval --model "$1" --tasks "$out/eval.jsonl" --name "$run-$2" \
    --set model.protocol=compact --set rollout.max_turns=1 --set rollout.max_turn_tokens=24 --set eval.samples=4 \
    >/dev/null
}

if [ ! -e "$data/teacher/config.json" ]; then
  say "1. The teacher: a million parameters, 60,000 demonstrations"
  mkdir -p "$data"
  "$tidemill" tasks generate --family cfunc --count 60000 --seed 9001 --second-turns 0 \
    --out "$data/shown-to-teacher.jsonl" --with-solutions "$data/teacher-demonstrations.jsonl"
  "$tidemill" tasks model --family cfunc --width 128 --feed-forward 320 --layers 5 --out "$data/teacher-shape"
  "$tidemill" warmup "$data/teacher-demonstrations.jsonl" --from-config "$data/teacher-shape" --seed 1 \
    --out "$data/teacher-warm" --replace --batch-tokens 2048 --evaluate-every 200 --patience 0 --held-out 0.01 --max-steps 1200 \
    --threads 2
  "$tidemill" warmup "$data/teacher-demonstrations.jsonl" --model "$data/teacher-warm" --out "$data/teacher" --replace --seed 2 \
    --learning-rate 4e-4 --batch-tokens 2048 --evaluate-every 100 --patience 0 --held-out 0.01 --max-steps 300 \
    --threads 2
fi

say "2. The student: 170 thousand parameters, 2,500 demonstrations"
rm -rf "$out"
mkdir -p "$out"
"$tidemill" tasks generate --family cfunc --count 2500 --seed "$((seed * 10 + 1))" --slips 0.2 --second-turns 0 \
  --out "$out/demonstrated.jsonl" --with-solutions "$out/demonstrations.jsonl"
"$tidemill" tasks generate --family cfunc --count 7000 --seed "$((seed * 10 + 2))" --out "$out/train.jsonl"
"$tidemill" tasks generate --family cfunc --count 300 --seed "$((seed * 10 + 3))" --split heldout --out "$out/eval.jsonl"
"$tidemill" tasks model --family cfunc --feed-forward 160 --out "$out/shape"
"$tidemill" warmup "$out/demonstrations.jsonl" --from-config "$out/shape" --out "$out/student" --seed "$seed" \
  --batch-tokens 2048 --weight-decay 1.5 --evaluate-every 100 --patience 4 --cuts 2 --max-steps 4000

# The proofs only show how good the student's answers are; the teacher alone says what is reinforced. A rate of 1e-3
# ruins the student within 30 steps.
say "3. $minutes minutes of distillation"
rm -rf "runs/$run"
began=$EPOCHREALTIME
"$tidemill" --log-level warn train --no-web --set run.name="$run" --set run.seed="$seed" --set run.steps=100000 \
  --set run.minutes="$minutes" --set model.path="$out/student" --set model.protocol=compact \
  --set tasks.train="$out/train.jsonl" --set rollout.group_size=4 --set rollout.groups_per_step=32 \
  --set rollout.max_in_flight=256 --set rollout.max_turns=1 --set rollout.max_turn_tokens=24 \
  --set rollout.cache_mb=256 --set staleness.max_steps=1 --set staleness.hard_max_steps=4 \
  --set learner.objective=distill --set learner.learning_rate=4e-4 --set learner.warmup_steps=5 \
  --set learner.checkpoint_every_steps=0 --set teacher.model="$data/teacher" --set reward.weights=proof=1 \
  --set tools.interpret=true
distilled=$(since "$began")

say "4. As long of supervised training ($distilled s)"
began=$EPOCHREALTIME
"$tidemill" warmup "$out/demonstrations.jsonl" --model "$out/student" --out "$out/supervised" --seed "$seed" \
  --batch-tokens 2048 --weight-decay 1.5 --evaluate-every 100 --patience 4 --cuts 9 \
  --minutes "$(awk "BEGIN {print $distilled / 60}")"
supervised=$(since "$began")

say "5. Held-out tasks solved by one answer; seed $seed"
evaluate "$data/teacher" teacher
evaluate "$out/student" student
evaluate "$out/supervised" supervised
evaluate "$(find "runs/$run/checkpoints" -maxdepth 1 -name 'step-*' | sort -V | tail -1)" distilled
python3 examples/distill.py "$out/figures.json" "$supervised" "$distilled" teacher="$run-teacher" \
  student="$run-student" supervised="$run-supervised" distilled="$run-distilled"
