#!/usr/bin/env python3
"""What a slow judge costs generation: one run whose judge answers at once and after 10 s (median) by turns.

    bench/judge_latency.py [--pairs 6] [--phase 40] [--in-flight 400] [--train]      writes to build/judge-latency

Every episode is judged. Phases go fast, slow, slow, fast and so on, so that a drift counts for both; tokens generated a
second are compared within pairs. The first 16 s of a phase, in which what the phase before left is scored, are not
counted.

- So that tokens measure generation, the engine is the bottleneck: it has a core that nothing else of the run uses, and
  as the rewards of a group are all equal, groups are dropped after their verdicts instead of trained on. With --train
  every group is trained on, and the trainer is the bottleneck.
- Cores are not equally fast all the time, those of virtual machines least of all. So the same run with a judge that is
  always fast goes on beside it, its engine on the same core; what is compared is tokens for each token of that run.
- The control is a second, shorter measurement with an eighth of the episodes in flight: there generation has to wait
  for verdicts, and the loss must show.

Ends with status 1 if the upper end of the 95 % interval of the loss is above 2 %, the gate allows less than 15 s of
episodes ahead, or the control shows a loss below 30 %; without --train also if the engine is busy for less than 95 % of
a phase.
"""
import argparse
import json
import math
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from judge_endpoint import Endpoint  # noqa: E402

START_S, TRAINED_START_S, SETTLE_S, AHEAD_S = 15, 90, 16, 15
LOSS_MAX, BUSY_MIN, CONTROL_LOSS_MIN = 0.02, 0.95, 0.3
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 11: 2.20}


class Judge:
    """Fast, slow, slow, fast by turns, `phase` seconds each; the times of slow answers are log-normal, median 10 s."""

    def __init__(self, phase):
        self.phase, self.random, self.began, self.waits = phase, random.Random(1), None, []

    def is_slow(self, now):
        return self.began is not None and (now - self.began) // self.phase % 4 in (1, 2)

    def __call__(self, goal, turn):
        asked = time.time()
        if self.is_slow(asked):
            time.sleep(min(25.0, self.random.lognormvariate(math.log(10), 0.2)))
            self.waits.append(time.time() - asked)
        return 1.0


def prepare(options):
    os.makedirs(options.folder)
    # Nothing is executed, and no prompt is long enough to be shared. An episode fills one page of the cache, which has
    # room for five: the engine's batch is always full and never makes room.
    with open(f"{options.folder}/train.jsonl", "w") as out:
        for index in range(2000):
            out.write(json.dumps({"id": f"t{index}", "prompt": "a", "weights": {"judge": 1}}) + "\n")
    # Slow enough that the judge keeps up: 256 questions at once in 10 s are 25 episodes a second.
    words = ["tasks", "model", "--family", "cfunc", "--width", str(options.width), "--feed-forward",
             str(3 * options.width), "--layers", "12", "--context", "64", "--out", f"{options.folder}/shape"]
    made = subprocess.run([options.program, *words], capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"tidemill tasks model: {made.stderr}")


def write_config(options, name, url, in_flight):
    with open(f"{options.folder}/{name}.toml", "w") as file:
        file.write(f"""[run]
name = "{name}"
folder = "{options.folder}/runs"
steps = 1000000
[model]
path = "{options.folder}/shape"
init = "random"
protocol = "compact"
[tasks]
train = "{options.folder}/train.jsonl"
[rollout]
group_size = 4
groups_per_step = 8
max_in_flight = {in_flight}
max_turns = 1
max_turn_tokens = 15
cache_mb = 4
[replay]
drop_zero_variance = {"false" if options.train else "true"}
[staleness]
max_steps = 24
hard_max_steps = 64
[learner]
learning_rate = 1e-7
checkpoint_every_steps = 0
[dashboard]
web = false
tensorboard = false
[threads]
engine = 1
trainer = 1
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


def keep_off_the_first_core():
    """This program and those it starts from here on; the core is for engines."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[1:])
    return cores[:1]


def give_the_engine(cores, pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm") as file:
            if file.read().strip() == "engine":
                os.sched_setaffinity(int(task), cores)


class Record:
    """What a run left: its ticks, one a second, and its episodes. Times are in seconds since 1970."""

    def __init__(self, folder):
        lines = map(json.loads, open(f"{folder}/metrics.jsonl"))
        self.ticks = [{**line, "time": line["time_ms"] / 1000} for line in lines if line["kind"] == "tick"]
        with sqlite3.connect(f"{folder}/run.db") as db:
            rows = db.execute("SELECT finished_ms, tokens FROM trajectories ORDER BY finished_ms")
            self.episodes = [(finished_ms / 1000, tokens) for finished_ms, tokens in rows]

    def tokens_per_s(self, begin, end):
        """From the end of one episode to that of another, so that what is half done at the ends does not count."""
        inside = [(at, tokens) for at, tokens in self.episodes if begin <= at <= end]
        first, last = inside[0][0], inside[-1][0]
        return sum(tokens for at, tokens in inside if at > first) / (last - first)

    def figures(self, begin, end):
        inside = [tick for tick in self.ticks if begin <= tick["time"] <= end]
        first, last = inside[0], inside[-1]
        seconds = last["seconds"] - first["seconds"]

        def busy(port):
            before, after = (tick[f"busy_port_{port}"] * tick["seconds"] for tick in (first, last))
            return (after - before) / seconds

        return {"tokens_per_s": self.tokens_per_s(begin, end),
                "episodes_per_s": (last["episodes_finished"] - first["episodes_finished"]) / seconds,
                "verdicts_per_s": (last["scored"] - first["scored"]) / seconds,
                "waiting_verdicts": statistics.mean(tick["waiting_verdicts"] for tick in inside),
                "engine": busy("engine"), "trainer": busy("trainer")}


def start(options, name, judge, in_flight):
    write_config(options, name, Endpoint(judge).url, in_flight)
    with open(f"{options.folder}/{name}.log", "w") as log:
        return subprocess.Popen([options.program, "--log-level", "warn", "train", f"{options.folder}/{name}.toml"],
                                stdout=log, stderr=subprocess.STDOUT)


def run(options, judges, in_flight, pairs, cores):
    """The records of runs side by side, by name."""
    runs = {name: start(options, name, judge, in_flight) for name, judge in judges.items()}
    # A trainer that is the bottleneck takes a while until as many episodes wait for it as may.
    time.sleep(TRAINED_START_S if options.train else START_S)
    for name, judge in judges.items():
        give_the_engine(cores, runs[name].pid)
        judge.began = time.time()
    time.sleep(2 * pairs * options.phase)
    over = [name for name, program in runs.items() if program.poll() is not None]
    for program in runs.values():
        program.terminate()
    for program in runs.values():
        program.wait()
    if over:
        sys.exit(f"the run {over[0]} ended early; its output is in {options.folder}/{over[0]}.log")
    return {name: Record(f"{options.folder}/runs/{name}") for name in runs}


def interval(losses):
    mean = statistics.mean(losses)
    if len(losses) < 2:
        return mean, [-math.inf, math.inf]
    half = T95.get(len(losses) - 1, 2.2) * statistics.stdev(losses) / math.sqrt(len(losses))
    return mean, [mean - half, mean + half]


def measure(options, name, in_flight, pairs, cores):
    judges = {name: Judge(options.phase), f"{name}-beside": Judge(math.inf)}
    record, beside = run(options, judges, in_flight, pairs, cores).values()
    judge, phases, ratios = judges[name], {"fast": [], "slow": []}, {"fast": [], "slow": []}
    for phase in range(2 * pairs):
        began = judge.began + phase * options.phase
        part = began + SETTLE_S, began + options.phase
        kind = "slow" if judge.is_slow(part[0]) else "fast"
        phases[kind].append(record.figures(*part))
        ratios[kind].append(record.tokens_per_s(*part) / beside.tokens_per_s(*part))
    losses = [1 - slow / fast for fast, slow in zip(ratios["fast"], ratios["slow"])]
    alone = [1 - slow["tokens_per_s"] / fast["tokens_per_s"] for fast, slow in zip(phases["fast"], phases["slow"])]
    mean, ends = interval(losses)
    figures = {"loss": mean, "ci95": ends, "losses": losses, "loss_without_the_run_beside": interval(alone),
               "ahead_s": in_flight / statistics.mean(part["episodes_per_s"] for part in phases["fast"]),
               "judge_median_s": statistics.median(judge.waits), "slow_answers": len(judge.waits)}
    for kind, parts in phases.items():
        figures[kind] = {key: statistics.mean(part[key] for part in parts) for key in parts[0]}
        figures[kind]["engine_min"] = min(part["engine"] for part in parts)
    return figures


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tidemill")
    parser.add_argument("--folder", default="build/judge-latency")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--control-pairs", type=int, default=1, help="0: no control")
    parser.add_argument("--phase", type=float, default=40, help="seconds")
    parser.add_argument("--in-flight", type=int, default=400, help="episodes that the gate allows at once")
    parser.add_argument("--width", type=int, default=512, help="of the policy; a wider one is slower")
    parser.add_argument("--train", action="store_true", help="train on every group")
    options = parser.parse_args()
    options.folder = os.path.abspath(options.folder)
    prepare(options)
    cores = keep_off_the_first_core()
    found = {"latency": measure(options, "latency", options.in_flight, options.pairs, cores)}
    latency = found["latency"]
    bounds = {"loss": latency["ci95"][1] <= LOSS_MAX, "gate": latency["ahead_s"] >= AHEAD_S}
    if not options.train:
        bounds["engine"] = min(latency[kind]["engine_min"] for kind in ("fast", "slow")) >= BUSY_MIN
    if options.control_pairs:
        found["control"] = measure(options, "control", options.in_flight // 8, options.control_pairs, cores)
        bounds["control"] = found["control"]["loss"] >= CONTROL_LOSS_MIN
    misses = [name for name, holds in bounds.items() if not holds]
    print(json.dumps({**rounded(found), "misses": misses}))
    sys.exit(1 if misses else 0)


main()
