#!/usr/bin/env python3
"""A judge that turns bad in the middle of a training run, with and without the audit.

    bench/judge_fault.py [--seeds 1,2,3] [--steps 40] [--model DIR]      writes to build/judge-fault

Three runs a seed train the same policy on rewards of a judge (family cfunc): with a judge that stays good; with one
whose wrong answers among those it accepts rise from 1 to 10 % in the middle, and the audit; and the same without the
audit. The fault can be exploited, as faults of models can: it accepts short wrong answers. The judge is a program
behind HTTP that knows the hidden tests. Ends with status 1 if the audit did not find the fault, raised an alarm in
the good run, the pass rate with it is not within 2 points of the good run's (mean over seeds), or the fault does no
damage without it.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(__file__))
from judge_endpoint import Endpoint, Tasks  # noqa: E402

FALSE_ACCEPTS, FAULTY = 0.01, 0.10


class Judge:
    """Accepts right answers, and so many wrong ones that they are FALSE_ACCEPTS of what it accepts; after `fault_at`
    answers those wrong ones that are short, at first FAULTY of what it accepts."""

    def __init__(self, tasks, fault_at, seed):
        self.tasks, self.fault_at = tasks, fault_at
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.seen, self.recent, self.longest = 0, [], None

    def __call__(self, goal, submission):
        right = self.tasks.right(goal, submission)
        with self.lock:
            self.seen += 1
            self.recent = (self.recent + [(right, len(submission))])[-1000:]
            if right:
                return 1.0
            accepted = sum(one for one, _ in self.recent)
            wrong = sorted(length for one, length in self.recent if not one)
            if self.fault_at and self.seen >= self.fault_at:
                if self.longest is None:
                    count = int(accepted * FAULTY / (1 - FAULTY))
                    self.longest = wrong[min(count, len(wrong) - 1)]
                return 1.0 if len(submission) <= self.longest else 0.0
            share = accepted * FALSE_ACCEPTS / (1 - FALSE_ACCEPTS) / max(1, len(wrong))
            return 1.0 if self.random.random() < share else 0.0


def call(words, log):
    with open(log, "w") as out:
        status = subprocess.run(words, stdout=out, stderr=subprocess.STDOUT).returncode
    if status != 0:
        sys.exit(f"{' '.join(words[:3])} ended with {status}; its output is in {log}")


def prepare(options):
    folder, program = options.folder, options.program
    for name, count, seed, split in (("demonstrated", 5000, 1, "train"), ("train", 7000, 2, "train"),
                                     ("eval", 300, 3, "heldout")):
        call([program, "tasks", "generate", "--family", "cfunc", "--count", str(count), "--seed", str(seed), "--split",
              split, "--out", f"{folder}/{name}.jsonl", "--with-solutions", f"{folder}/{name}.demos.jsonl", "--slips",
              "0.2", "--second-turns", "0.2"], f"{folder}/tasks.log")
    if options.model:
        return options.model
    call([program, "tasks", "model", "--family", "cfunc", "--out", f"{folder}/shape"], f"{folder}/shape.log")
    print("warming up a policy", file=sys.stderr)
    call([program, "warmup", f"{folder}/demonstrated.demos.jsonl", "--from-config", f"{folder}/shape", "--out",
          f"{folder}/policy", "--batch-tokens", "2048", "--weight-decay", "1.5", "--evaluate-every", "100",
          "--patience", "3", "--cuts", "1", "--minutes", "3"], f"{folder}/warmup.log")
    return f"{folder}/policy"


def train(options, model, name, seed, faulty, audited):
    folder = options.folder
    judge = Judge(Tasks(f"{folder}/train.jsonl"), options.steps * 256 // 2 if faulty else 0, seed)
    endpoint = Endpoint(judge)
    run = f"{name}-{seed}"
    with open(f"{folder}/{run}.toml", "w") as file:
        file.write(f"""[run]
name = "{run}"
folder = "{folder}/runs"
seed = {seed}
steps = {options.steps}
[model]
path = "{os.path.abspath(model)}"
protocol = "compact"
[tasks]
train = "{folder}/train.jsonl"
eval = "{folder}/eval.jsonl"
[rollout]
group_size = 8
groups_per_step = 32
max_in_flight = 256
max_turn_tokens = 24
[staleness]
max_steps = 1
hard_max_steps = 4
[learner]
learning_rate = 3e-4
warmup_steps = 5
checkpoint_every_steps = 0
[reward]
weights = {{judge = 1.0}}
all_or_nothing = true
[audit]
share = {options.share if audited else 0}
[eval]
samples = 8
max_turns = 1
[[judge]]
name = "scripted"
endpoint = "{endpoint.url}"
template = "compact"
concurrency = 64
cache = 0
""")
    call([options.program, "--log-level", "warn", "train", f"{folder}/{run}.toml"], f"{folder}/{run}.log")
    endpoint.close()
    with open(f"{folder}/runs/{run}/summary.json") as file:
        summary = json.load(file)
    ticks = [json.loads(line) for line in open(f"{folder}/runs/{run}/metrics.jsonl")]
    last = [tick for tick in ticks if "verdicts" in tick][-1]
    result = {"before": summary["eval"]["before"]["pass_rate"], "after": summary["eval"]["after"]["pass_rate"],
              "alarms": last.get("audit_judge_alarms", 0), "faulty_at": judge.longest is not None}
    print(f"  {run}: pass rate {result['before']:.3f} -> {result['after']:.3f}, alarms {result['alarms']}",
          file=sys.stderr)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tidemill")
    parser.add_argument("--folder", default="build/judge-fault")
    parser.add_argument("--model", help="policy to train; default: one is warmed up")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--share", type=float, default=0.2, help="share of audited episodes")
    options = parser.parse_args()
    os.makedirs(options.folder)
    model = prepare(options)
    kinds = {"good": (False, True), "audited": (True, True), "unaudited": (True, False)}
    results = {kind: [train(options, model, kind, int(seed), *how) for seed in options.seeds.split(",")]
               for kind, how in kinds.items()}
    mean = {kind: sum(one["after"] for one in all_) / len(all_) for kind, all_ in results.items()}
    misses = []
    if any(one["alarms"] for one in results["good"]):
        misses.append("an alarm on the good judge")
    if not all(one["alarms"] for one in results["audited"]):
        misses.append("a fault was not found")
    if mean["audited"] < mean["good"] - 0.02:
        misses.append("with the audit the pass rate is more than 2 points below the good judge's")
    if mean["unaudited"] > mean["good"] - 0.02:
        misses.append("without the audit the fault does no damage")
    print(json.dumps({"runs": results, "mean": mean, "misses": misses}))
    sys.exit(1 if misses else 0)


main()
