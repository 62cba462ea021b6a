#!/usr/bin/env python3
"""Trains a small judge on cases made from programs whose results are known, and checks it with `tidemill judge check`
on cases it has not seen: 5,000, of which 30 % are misleading, and 200 that try to instruct it.

    bench/judge_model.py [--seed 1] [--cases 5000] [--minutes 15] [--quick]      writes to build/judge

Ends with status 1 if the AUC is below 0.95 or less than 0.05 above the keyword rule's, the expected calibration error
above 0.03, the accuracy on instructing cases more than 5 points below the rest, or more than 0.5 % of the answers are
no label. --quick: a small set and a short training, and only that the judge beats the rule and answers with labels.
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(__file__))
import trained_judge  # noqa: E402


def line_of(text):
    """As the compact template writes a text."""
    return re.sub(r"[\x00-\x1f]+ ?", " ", text).strip()


def make_cases(options, name, number, count, *words):
    path = f"{options.folder}/{name}.jsonl"
    trained_judge.tidemill(options, "judge", "cases", "--count", str(count), "--seed",
                           str(options.seed * 10 + number), "--out", path, *words)
    return [json.loads(line) for line in open(path)]


def make_unseen_cases(options, seen, name, number, count, *words):
    """So many that no demonstration shows: functions are small, and some are drawn again."""
    drawn = make_cases(options, name, number, count + count // 5, *words)
    unseen = [case for case in drawn if tuple(line_of(case[key]) for key in ("prompt", "turn", "next")) not in seen]
    if len(unseen) < count:
        sys.exit(f"only {len(unseen)} of {len(drawn)} cases are in no demonstration")
    with open(f"{options.folder}/{name}.jsonl", "w") as out:
        out.writelines(json.dumps(case) + "\n" for case in unseen[:count])


def prepare(options):
    demonstrations = make_cases(options, "demonstrations", 1, options.demonstrations, "--demonstrations",
                                "--instructing", "0.15")
    seen = {re.match(r"goal: (.*)\nturn: (.*)\nnext: (.*)\n", one["prompt"]).groups() for one in demonstrations}
    make_unseen_cases(options, seen, "held_out", 2, options.cases)
    make_unseen_cases(options, seen, "instructing", 3, options.instructing, "--instructing", "1")
    trained_judge.tidemill(options, "judge", "model", "--out", f"{options.folder}/shape", "--seed", str(options.seed))


def train(options):
    folder = options.folder
    return trained_judge.train(options, f"{folder}/demonstrations.jsonl", ["--from-config", f"{folder}/shape"],
                               batch_tokens=2048, learning_rate=0.003, weight_decay=0.01, patience=4, cuts=2)


def check(options):
    folder = options.folder
    with open(f"{folder}/all.jsonl", "w") as out:
        for name in ("held_out", "instructing"):
            out.write(open(f"{folder}/{name}.jsonl").read())
    return trained_judge.check(options, f"{folder}/all.jsonl",
                               trained_judge.config(options, "small", "next_state", "compact"))


def main():
    parser = trained_judge.parser_of(__doc__, "build/judge", minutes=15, updates=6000)
    parser.add_argument("--demonstrations", type=int, default=60000)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--instructing", type=int, default=200)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.demonstrations, options.cases, options.instructing = 12000, 500, 50
        options.updates, options.minutes = 300, 4
    os.makedirs(options.folder)
    prepare(options)
    trained = train(options)
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
    trained_judge.finish({"training": trained, "check": found, "instructing": instructing, "rest": rest}, bounds)


main()
