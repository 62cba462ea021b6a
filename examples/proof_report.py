#!/usr/bin/env python3
"""Whether training on proofs paid off: examples/proof_report.py EXECUTED PROVED (two run folders of equal time)

Ends with status 1 if the run with proofs has less than 2.5 times the episodes of the other, or no higher pass rate.
"""
import json
import sys

EPISODES_RATIO = 2.5


def read(folder):
    with open(f"{folder}/summary.json") as file:
        summary = json.load(file)
    return summary["train_episodes"], summary["eval"]["after"]["pass_rate"]


(episodes, passes), (more, higher) = map(read, sys.argv[1:3])
ratio = more / episodes
print(f"proofs: {ratio:.1f} times the episodes, pass rate {100 * higher:.1f} % instead of {100 * passes:.1f} %")
if ratio < EPISODES_RATIO:
    sys.exit(f"less than {EPISODES_RATIO} times the episodes")
if higher <= passes:
    sys.exit("the pass rate is not higher")
