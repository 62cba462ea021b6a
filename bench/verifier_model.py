#!/usr/bin/env python3
"""Trains a verifier on the answers of a run and checks it on answers to tasks it has not seen.

    bench/verifier_model.py [--seed 1] [--minutes 8] [--model DIR] [--run FOLDER]      writes to build/verifier

A policy of the family cfunc is trained on proofs; each distinct answer, with whether it was proved, is an example. The
verifier begins with the trained policy's weights. Ends with status 1 if the AUC on the answers to the tasks kept back
is below 0.8 or the expected calibration error above 0.05. Then the policy is trained on executions twice from its first
weights, once with gradings in the order of their arrival and once in the verifier's (reward.order_by), and what that
changes is reported.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import fault_runs  # noqa: E402
import trained_judge  # noqa: E402

AUC, CALIBRATION = 0.8, 0.05


def collect(options, model):
    """The folder and the name of a run of the policy on proofs."""
    if options.run:
        return os.path.split(os.path.abspath(options.run))
    print("training the policy", file=sys.stderr)
    with open(f"{options.folder}/run.toml", "w") as file:
        file.write(fault_runs.config(options, model, "policy", options.seed, 0) + """[reward]
weights = {proof = 1.0}
[tools]
interpret = true
""")
    fault_runs.call([options.program, "--log-level", "warn", "train", f"{options.folder}/run.toml"],
                    f"{options.folder}/run.log")
    return f"{options.folder}/runs", "policy"


def train(options, runs, run):
    folder, checkpoints = options.folder, f"{runs}/{run}/checkpoints"
    policy = f"{checkpoints}/{max(os.listdir(checkpoints))}"
    for out, words in (("train", ["--demonstrations", "--template", "bare"]), ("heldout", ["--heldout"])):
        trained_judge.tidemill(options, "judge", "answers", run, "--runs", runs, "--proved", "--limit", "200000",
                               "--out", f"{folder}/{out}.examples.jsonl", *words)
    print("training the verifier", file=sys.stderr)
    return trained_judge.train(options, f"{folder}/train.examples.jsonl", ["--model", policy], batch_tokens=4096,
                               learning_rate=0.002, weight_decay=0.1, patience=5, cuts=1)


def order(options, model, verifier):
    """What the verifier's order does to a run whose boxes are the bound: figures of one without and one with it."""
    judge = verifier + "reward = false\n"
    figures = {}
    for name, rewards in (("plain", ""), ("ordered", 'order_by = "verifier"\n')):
        run = f"{name}-{options.seed}"
        with open(f"{options.folder}/{run}.toml", "w") as file:
            text = fault_runs.config(options, model, run, options.seed, 0)
            text = text.replace(f"steps = {options.steps}\n", f"steps = {options.order_steps}\n")
            file.write(f"{text}before = false\nafter = false\n[reward]\nall_or_nothing = true\n{rewards}{judge}")
        fault_runs.call([options.program, "--log-level", "warn", "train", f"{options.folder}/{run}.toml"],
                        f"{options.folder}/{run}.log")
        lines = [json.loads(line) for line in open(f"{options.folder}/runs/{run}/metrics.jsonl")]
        steps, ticks = ([line for line in lines if line["kind"] == kind] for kind in ("step", "tick"))
        times = [(step["time_ms"] - ticks[0]["time_ms"]) / 1000 for step in steps]
        figures[name] = {"first_step_s": times[0], "last_step_s": times[-1],
                         "lag": sum(step["lag_mean"] for step in steps) / len(steps)}
        for key in ("graded", "zero_variance", "too_old", "gradings_estimated", "gradings_overdue", "judge_calls"):
            figures[name][key] = ticks[-1].get(key, 0)
    return figures


def main():
    parser = trained_judge.parser_of(__doc__, "build/verifier", minutes=8, updates=10000)
    parser.add_argument("--model", help="policy to train; default: one is warmed up")
    parser.add_argument("--run", help="folder of a finished run to learn from; default: one is made")
    parser.add_argument("--steps", type=int, default=60, help="of the policy")
    parser.add_argument("--order-steps", type=int, default=20, help="of the runs that compare orders; 0: none")
    options = parser.parse_args()
    os.makedirs(options.folder)
    model = fault_runs.prepare(options)
    trained = train(options, *collect(options, model))
    verifier = trained_judge.config(options, "verifier", "outcome", "bare")
    found = trained_judge.check(options, f"{options.folder}/heldout.examples.jsonl", verifier)
    bounds = {"auc": found["auc"] >= AUC, "calibration": found["ece"] <= CALIBRATION,
              "available": found["unavailable"] <= 0.01 * found["accuracy"]["n"]}
    ordered = order(options, model, verifier) if options.order_steps else {}
    trained_judge.finish({"training": trained, "check": found, "order": ordered}, bounds)


main()
