#!/usr/bin/env python3
"""Trains a small judge on cases made from programs whose results are known, and checks it with `tidemill judge check`
on cases it has not seen: 5,000, of which 30 % are misleading, and 200 that try to instruct it.

    bench/judge_model.py [--seed 1] [--cases 5000] [--minutes 15] [--quick]      writes to build/judge

Ends with status 1 if the AUC is below 0.95 or less than 0.05 above the keyword rule's, the expected calibration error
above 0.03, the accuracy on instructing cases more than 5 points below the rest, or more than 0.5 % of the answers are
no label. --quick: a small set and a short
training, and only that the judge beats the rule.
"""
import argparse
import json
import os
import subprocess
import sys


def tidemill(options, *words, log=None):
    done = subprocess.run([options.program, *words], capture_output=True, text=True)
    if log:
        with open(log, "w") as file:
            file.write(done.stderr + done.stdout)
    if done.returncode != 0:
        sys.exit(f"tidemill {' '.join(words[:2])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def train(options):
    folder, seed = options.folder, options.seed
    tidemill(options, "judge", "cases", "--demonstrations", "--instructing", "0.15", "--count",
             str(options.demonstrations), "--seed", str(seed * 10 + 1), "--out", f"{folder}/demonstrations.jsonl")
    tidemill(options, "judge", "cases", "--count", str(options.cases), "--seed", str(seed * 10 + 2), "--out",
             f"{folder}/held_out.jsonl")
    tidemill(options, "judge", "cases", "--count", str(options.instructing), "--instructing", "1", "--seed",
             str(seed * 10 + 3), "--out", f"{folder}/instructing.jsonl")
    tidemill(options, "judge", "model", "--out", f"{folder}/shape", "--seed", str(seed))
    tidemill(options, "warmup", f"{folder}/demonstrations.jsonl", "--from-config", f"{folder}/shape", "--out",
             f"{folder}/model", "--seed", str(seed), "--batch-tokens", "2048", "--learning-rate", "0.003",
             "--weight-decay", "0.01", "--evaluate-every", "100", "--patience", "4", "--cuts", "2", "--max-steps",
             str(options.steps), "--minutes", str(options.minutes), log=f"{folder}/warmup.log")


def check(options):
    folder = options.folder
    with open(f"{folder}/all.jsonl", "w") as out:
        for name in ("held_out", "instructing"):
            out.write(open(f"{folder}/{name}.jsonl").read())
    with open(f"{folder}/judge.toml", "w") as file:
        file.write(f"""[[judge]]
name = "small"
endpoint = "{os.path.abspath(folder)}/model"
task = "next_state"
template = "compact"
answer = "token"
temperature = 0
max_tokens = 4
concurrency = 16
""")
    return json.loads(tidemill(options, "judge", "check", f"{folder}/all.jsonl", "--config", f"{folder}/judge.toml",
                               "--json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tidemill")
    parser.add_argument("--folder", default="build/judge")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--demonstrations", type=int, default=60000)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--instructing", type=int, default=200)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.demonstrations, options.cases, options.instructing = 12000, 500, 50
        options.steps, options.minutes = 300, 4
    os.makedirs(options.folder)
    train(options)
    found = check(options)
    kinds = found["by_kind"]
    instructing = kinds.pop("instructing")["value"]
    rest = sum(kind["value"] * kind["n"] for kind in kinds.values()) / sum(kind["n"] for kind in kinds.values())
    bounds = {"auc": found["auc"] >= 0.95, "calibration": found["ece"] <= 0.03,
              "instructing": instructing >= rest - 0.05}
    if options.quick:
        bounds = {}
    bounds["better than keywords"] = found["auc"] >= found["keyword_auc"] + (0.02 if options.quick else 0.05)
    bounds["available"] = found["unavailable"] <= 0.005 * (options.cases + options.instructing)
    misses = [name for name, holds in bounds.items() if not holds]
    print(json.dumps({"check": found, "instructing": instructing, "rest": rest, "misses": misses}))
    sys.exit(1 if misses else 0)


main()
