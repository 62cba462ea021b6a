#!/usr/bin/env python3
"""What a slow judge costs generation: one training run whose judge answers at once and after 10 s (median) by turns.

    bench/judge_latency.py [--pairs 6] [--phase 40]      writes to build/judge-latency

The admission gate allows more than 15 s of episodes ahead, and every episode is judged. Phases go fast, slow, slow,
fast and so on, so that a drift counts for both; tokens generated a second are compared within pairs. The first 16 s of
a phase, in which what the phase before left is scored, are not counted. The engine has a core of its own. Ends with
status 1 if the mean loss is above 2 %.
"""
import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from judge_endpoint import Endpoint  # noqa: E402

SETTLE_S = 16
LOSS_MAX = 0.02
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def call(words, log):
    with open(log, "w") as out:
        if subprocess.run(words, stdout=out, stderr=subprocess.STDOUT).returncode != 0:
            sys.exit(f"{' '.join(words[:3])} failed; its output is in {log}")


class Judge:
    """Fast, slow, slow, fast by turns, `phase` seconds each; the times of slow answers are log-normal, median 10 s."""

    def __init__(self, phase):
        self.phase, self.random, self.began, self.waits = phase, random.Random(1), None, []

    def is_slow(self, now):
        return self.began is not None and int((now - self.began) / self.phase) % 4 in (1, 2)

    def __call__(self, goal, submission):
        if self.is_slow(time.time()):
            wait = min(25.0, 10 * math.exp(self.random.gauss(0, 0.2)))
            self.waits.append(wait)
            time.sleep(wait)
        return float(self.random.random() < 0.5)


def write_config(options, folder, url):
    with open(f"{folder}/run.toml", "w") as file:
        file.write(f"""[run]
name = "latency"
folder = "{folder}/runs"
steps = 1000000
[model]
path = "{folder}/policy"
protocol = "compact"
[tasks]
train = "{folder}/train.jsonl"
[rollout]
group_size = 4
groups_per_step = 8
max_in_flight = 1024
max_turns = 1
max_turn_tokens = {options.tokens}
cache_mb = 16
[replay]
drop_zero_variance = false
[staleness]
max_steps = 24
hard_max_steps = 64
[learner]
learning_rate = 1e-7
checkpoint_every_steps = 0
[reward]
weights = {{judge = 1.0}}
[[judge]]
name = "slow"
endpoint = "{url}"
task = "next_state"
template = "compact"
concurrency = 256
cache = 0
""")


def prepare(options):
    folder, program = options.folder, options.program
    os.makedirs(folder)
    call([program, "tasks", "generate", "--family", "cfunc", "--count", "2000", "--out", f"{folder}/train.jsonl",
          "--with-solutions", f"{folder}/demos.jsonl"], f"{folder}/tasks.log")
    # Large enough that the judge keeps up: 256 questions at once in 10 s are 25 episodes a second.
    call([program, "tasks", "model", "--family", "cfunc", "--width", "256", "--feed-forward", "768", "--layers", "4",
          "--context", "256", "--out", f"{folder}/shape"], f"{folder}/shape.log")
    # Weights that never learned to stop: every episode has the same length.
    call([program, "warmup", f"{folder}/demos.jsonl", "--from-config", f"{folder}/shape", "--out", f"{folder}/policy",
          "--max-steps", "1", "--learning-rate", "1e-6"], f"{folder}/warmup.log")


def give_the_engine_a_core(pid):
    """What learning takes from the cores is not the judge's doing: it has the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm") as file:
            engine = file.read().strip() == "engine"
        os.sched_setaffinity(int(task), cores[:1] if engine else cores[1:])


def ticks(folder):
    """(seconds since 1970, tokens generated so far), once a second."""
    for line in open(f"{folder}/runs/latency/metrics.jsonl"):
        tick = json.loads(line)
        if tick.get("kind") == "tick":
            yield tick["time_ms"] / 1000, tick["generated_tokens"]


def rate(points, begin, end):
    inside = [point for point in points if begin <= point[0] <= end]
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tidemill")
    parser.add_argument("--folder", default="build/judge-latency")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--phase", type=float, default=40, help="seconds")
    parser.add_argument("--tokens", type=int, default=200, help="tokens of an episode")
    options = parser.parse_args()
    options.folder = os.path.abspath(options.folder)
    prepare(options)
    judge = Judge(options.phase)
    endpoint = Endpoint(judge)
    write_config(options, options.folder, endpoint.url)
    with open(f"{options.folder}/run.log", "w") as log:
        run = subprocess.Popen([options.program, "--log-level", "warn", "train", f"{options.folder}/run.toml"],
                               stdout=log, stderr=subprocess.STDOUT)
    time.sleep(15)
    give_the_engine_a_core(run.pid)
    judge.began = time.time()
    time.sleep(2 * options.pairs * options.phase)
    alive = run.poll() is None
    run.terminate()
    run.wait()
    if not alive:
        sys.exit(f"the run ended early; its output is in {options.folder}/run.log")
    points = list(ticks(options.folder))
    losses, rates = [], []
    for pair in range(options.pairs):
        begins = [judge.began + (2 * pair + half) * options.phase for half in (0, 1)]
        first, second = (rate(points, begin + SETTLE_S, begin + options.phase) for begin in begins)
        fast, slow = (first, second) if pair % 2 == 0 else (second, first)
        rates.append((fast, slow))
        losses.append(1 - slow / fast)
    mean = statistics.mean(losses)
    half = T95.get(len(losses) - 1, 2.0) * statistics.stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else 1
    print(json.dumps({"tokens_per_s": [[round(a), round(b)] for a, b in rates], "loss": round(mean, 4),
                      "ci95": [round(mean - half, 4), round(mean + half, 4)],
                      "judge_median_s": round(statistics.median(judge.waits), 2), "answers": len(judge.waits)}))
    sys.exit(1 if mean > LOSS_MAX else 0)


main()
