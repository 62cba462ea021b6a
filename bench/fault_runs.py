"""Training runs on rewards of a verifier that turns bad in the middle: what judge_fault.py and proof_fault.py share.

Three runs a seed train the same policy (family cfunc): with a verifier that stays good; with one whose wrong answers
among those it accepts rise from 1 to 10 % in the middle, and the audit; and the same without the audit. The fault can
be exploited, as faults of models can: it accepts short wrong answers.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys

FALSE_ACCEPTS, FAULTY = 0.01, 0.10
EPISODES_PER_STEP = 256
KINDS = {"good": (False, True), "audited": (True, True), "unaudited": (True, False)}  # faulty, audited


class Verifier:
    """Accepts right answers, and so many wrong ones that they are FALSE_ACCEPTS of what it accepts; after `fault_at`
    answers (0: never) those wrong ones that are short, at first FAULTY of what it accepts. Not thread-safe."""

    def __init__(self, fault_at, seed):
        self.fault_at, self.random = fault_at, random.Random(seed)
        self.seen, self.recent, self.longest = 0, collections.deque(maxlen=1000), None

    def accepts(self, right, answer):
        self.seen += 1
        self.recent.append((right, len(answer)))
        if right:
            return True
        accepted = sum(one for one, _ in self.recent)
        if self.fault_at and self.seen >= self.fault_at:
            if self.longest is None:
                wrong = sorted(length for one, length in self.recent if not one)
                count = int(accepted * FAULTY / (1 - FAULTY))
                self.longest = wrong[min(count, len(wrong) - 1)]
            return len(answer) <= self.longest
        wrong = len(self.recent) - accepted
        return self.random.random() < accepted * FALSE_ACCEPTS / (1 - FALSE_ACCEPTS) / wrong


def call(words, log):
    with open(log, "w") as out:
        status = subprocess.run(words, stdout=out, stderr=subprocess.STDOUT).returncode
    if status != 0:
        sys.exit(f"{' '.join(words[:3])} ended with {status}; its output is in {log}")


def prepare(options):
    """Tasks and a policy that solves some of them."""
    folder, program = options.folder, options.program
    sets = [("train", 7000, 2, "train"), ("eval", 300, 3, "heldout")]
    if not options.model:
        sets.append(("demonstrated", 5000, 1, "train"))
    for name, count, seed, split in sets:
        call([program, "tasks", "generate", "--family", "cfunc", "--count", str(count), "--seed", str(seed), "--split",
              split, "--out", f"{folder}/{name}.jsonl", "--with-solutions", f"{folder}/{name}.demos.jsonl", "--slips",
              "0.2", "--second-turns", "0.2"], f"{folder}/tasks.log")
    if options.model:
        return options.model
    call([program, "tasks", "model", "--family", "cfunc", "--out", f"{folder}/shape"], f"{folder}/shape.log")
    print("warming up a policy", file=sys.stderr)
    call([program, "warmup", f"{folder}/demonstrated.demos.jsonl", "--from-config", f"{folder}/shape", "--out",
          f"{folder}/policy", "--replace", "--batch-tokens", "2048", "--weight-decay", "1.5", "--evaluate-every", "100",
          "--patience", "3", "--cuts", "1", "--minutes", "3"], f"{folder}/warmup.log")
    return f"{folder}/policy"


def config(options, model, run, seed, share):
    """All of a run but its rewards."""
    return f"""[run]
name = "{run}"
folder = "{options.folder}/runs"
seed = {seed}
steps = {options.steps}
[model]
path = "{os.path.abspath(model)}"
protocol = "compact"
[tasks]
train = "{options.folder}/train.jsonl"
eval = "{options.folder}/eval.jsonl"
[rollout]
group_size = 8
groups_per_step = {EPISODES_PER_STEP // 8}
max_in_flight = 256
max_turn_tokens = 24
[staleness]
max_steps = 1
hard_max_steps = 4
[learner]
learning_rate = 3e-4
warmup_steps = 5
checkpoint_every_steps = 0
[audit]
share = {share}
[eval]
samples = 8
max_turns = 1
"""


def train(options, model, scorer, verifier, name, seed):
    """One run. `verifier(options, run, seed, fault_at)` is a context manager that gives the config of the rewards."""
    faulty, audited = KINDS[name]
    folder, run = options.folder, f"{name}-{seed}"
    fault_at = options.steps * EPISODES_PER_STEP // 2 if faulty else 0
    with verifier(options, run, seed, fault_at) as rewards:
        with open(f"{folder}/{run}.toml", "w") as file:
            file.write(config(options, model, run, seed, options.share if audited else 0) + rewards)
        call([options.program, "--log-level", "warn", "train", f"{folder}/{run}.toml"], f"{folder}/{run}.log")
    with open(f"{folder}/runs/{run}/summary.json") as file:
        summary = json.load(file)
    ticks = [json.loads(line) for line in open(f"{folder}/runs/{run}/metrics.jsonl")]
    last = [tick for tick in ticks if "verdicts" in tick][-1]
    result = {"before": summary["eval"]["before"]["pass_rate"], "after": summary["eval"]["after"]["pass_rate"],
              "alarms": last.get(f"audit_{scorer}_alarms", 0), "episodes": last["verdicts"]}
    print(f"  {run}: pass rate {result['before']:.3f} -> {result['after']:.3f}, alarms {result['alarms']}",
          file=sys.stderr)
    return result


def misses_of(results, mean):
    misses = []
    if any(one["alarms"] for one in results["good"]):
        misses.append("an alarm without a fault")
    if not all(one["alarms"] for one in results["audited"]):
        misses.append("a fault was not found")
    if mean["audited"] < mean["good"] - 0.02:
        misses.append("with the audit the pass rate is more than 2 points below that without a fault")
    if mean["unaudited"] > mean["good"] - 0.02:
        misses.append("without the audit the fault does no damage")
    return misses


def main(description, folder, scorer, verifier):
    """Trains and compares; ends with status 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tidemill")
    parser.add_argument("--folder", default=folder)
    parser.add_argument("--model", help="policy to train; default: one is warmed up")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--share", type=float, default=0.2, help="share of audited episodes")
    options = parser.parse_args()
    os.makedirs(options.folder)
    model = prepare(options)
    results = {kind: [] for kind in KINDS}
    for seed in options.seeds.split(","):
        for kind, runs in results.items():
            runs.append(train(options, model, scorer, verifier, kind, int(seed)))
    mean = {kind: sum(one["after"] for one in all_) / len(all_) for kind, all_ in results.items()}
    misses = misses_of(results, mean)
    print(json.dumps({"runs": results, "mean": mean, "misses": misses}))
    sys.exit(1 if misses else 0)
