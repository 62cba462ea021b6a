#!/usr/bin/env bash
# A published model gets better at real code: MBPP and simple Python functions, by reinforcement alone, after
# supervised training, or by supervised training alone. On a GPU an arm takes 6 minutes; on a CPU the same
# script shows that everything works, with a tiny budget.
#
#   examples/mbpp.sh MODEL DATA [SEED] [ARM]      ARM: async (default), sync, supervised, supervised-async
#
# MODEL: a .gguf file or a Hugging Face directory. DATA: the folder of mbpp.jsonl and pyfunc.jsonl; without
# pyfunc.jsonl the built-in family takes its place, without mbpp.jsonl MBPP is left out.
# SECONDS_OF_TRAINING (240), SUPERVISED_SECONDS (20 before reinforcement), RATE (1.5e-5), SUPERVISED_RATE (2e-5),
# EVAL_TASKS (0: all of each test split), EVAL_SAMPLES (8), BEFORE (1; 0: no evaluation of the start),
# SETTINGS (further "--set a.b=c" words), TIDEMILL (the program).
# Prints one JSON object for each evaluation and for the training; everything is left below build/mbpp and runs/.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { sed -n '2,16p' "$0" >&2; exit 2; }
model=$1 data=$2 seed=${3:-1} arm=${4:-async}
case "$arm" in async | sync | supervised | supervised-async) ;; *) echo "no arm \"$arm\"" >&2; exit 2 ;; esac
tidemill=${TIDEMILL:-build/release/tidemill}
seconds=${SECONDS_OF_TRAINING:-240}
warm=${SUPERVISED_SECONDS:-20}
out=build/mbpp/$arm-$seed
run=mbpp-$arm-$seed
read -ra settings <<<"${SETTINGS:-}"
rm -rf "$out" "runs/$run" "runs/$run"-{before,after}-{mbpp,pyfunc}
mkdir -p "$out"

say() { printf '\n\033[1m%s\033[0m\n' "$*" >&2; }

say "1. Model and tasks"
if [ -f "$model" ]; then
  "$tidemill" model import "$model" --out "$out/model" >&2
  model=$out/model
fi
sets=()
if [ -f "$data/pyfunc.jsonl" ]; then
  "$tidemill" tasks import --format pyfunc "$data/pyfunc.jsonl" --split train --cpu-ms 500 --out "$out/pyfunc-train.jsonl" >&2
  "$tidemill" tasks import --format pyfunc "$data/pyfunc.jsonl" --split test --cpu-ms 1000 --out "$out/pyfunc-test.jsonl" >&2
else
  "$tidemill" tasks generate --family pyfunc --count 2000 --seed 1 --out "$out/pyfunc-train.jsonl" \
    --with-solutions "$out/solutions.jsonl" --model "$model" >&2
  "$tidemill" tasks generate --family pyfunc --count 300 --seed 2 --split heldout --out "$out/pyfunc-test.jsonl" >&2
fi
sets+=(pyfunc)
if [ -f "$data/mbpp.jsonl" ]; then
  "$tidemill" tasks import --format mbpp "$data/mbpp.jsonl" --split train --cpu-ms 500 --out "$out/mbpp-train.jsonl" \
    --with-solutions "$out/solutions.jsonl" --model "$model" >&2
  # MBPP repeats itself across its authors' split: what solves a test task is not trained on.
  examples/mbpp_overlap.py "$data" --drop-from "$out/mbpp-train.jsonl" "$out/solutions.jsonl"
  "$tidemill" tasks import --format mbpp "$data/mbpp.jsonl" --split test --cpu-ms 2000 --out "$out/mbpp-test.jsonl" >&2
  sets+=(mbpp)
fi
cat "$out"/*-train.jsonl >"$out/train.jsonl"

# One JSON object on one line: what `tidemill .. --json` said, cut to what is compared.
report() {  # WHAT FILE
  python3 - "$arm" "$seed" "$1" "$2" <<'PYTHON'
import json, sys
arm, seed, what, path = sys.argv[1:]
s = json.load(open(path))
row = {"arm": arm, "seed": int(seed), "what": what}
for key in ("eval", "steps", "episodes", "seconds", "generated_tokens", "trained_tokens", "stale", "lost", "repeated_literals", "busy", "staleness",
            "training_pass_rate"):
    if key in s:
        row[key] = s[key]
if s.get("seconds") and s.get("generated_tokens"):
    row["generated_tokens_per_second"] = round(s["generated_tokens"] / s["seconds"])
print(json.dumps(row))
PYTHON
}

evaluate() {  # WHEN MODEL
  for set in "${sets[@]}"; do
    "$tidemill" --log-level warn eval examples/mbpp.toml --model "$2" --tasks "$out/$set-test.jsonl" --name "$run-$1-$set" \
      --set run.seed="$seed" --set eval.samples="${EVAL_SAMPLES:-8}" --set tasks.eval_limit="${EVAL_TASKS:-0}" \
      "${settings[@]}" --json >"$out/eval-$1-$set.json"
    report "$1-$set" "$out/eval-$1-$set.json"
  done
}

supervised() {  # SECONDS
  "$tidemill" --log-level warn warmup "$out/solutions.jsonl" --model "$model" --out "$out/supervised" --seed "$seed" \
    --learning-rate "${SUPERVISED_RATE:-2e-5}" --batch-tokens 8192 --weight-decay 0 --evaluate-every 10 --patience 3 \
    --minutes "$(python3 -c "print($1 / 60)")" --json >"$out/supervised.json"
  model=$out/supervised
}

train() {  # MODE SECONDS
  "$tidemill" --log-level warn train examples/mbpp.toml --mode "$1" --set run.name="$run" --set run.seed="$seed" \
    --set model.path="$model" --set tasks.train="$out/train.jsonl" --set run.steps=1000000 \
    --set learner.learning_rate="${RATE:-1.5e-5}" --set run.minutes="$(python3 -c "print($2 / 60)")" \
    "${settings[@]}" --json >"$out/train.json"
  report training "$out/train.json"
  model=$(ls -d "runs/$run/checkpoints"/step-* | tail -1)
}

if [ "${BEFORE:-1}" = 1 ]; then
  say "2. The model as it is"
  evaluate before "$model"
fi
say "3. Training: $arm, $seconds s"
begin=$(date +%s)
case "$arm" in
  async | sync) train "$arm" "$seconds" ;;
  supervised) supervised "$seconds" ;;
  supervised-async)
    supervised "$warm"
    train async "$((seconds - ($(date +%s) - begin)))"
    ;;
esac
say "4. What it can do now ($model)"
evaluate after "$model"
