#!/usr/bin/env python3
"""A prover that turns bad in the middle of a training run, with and without the audit.

    bench/proof_fault.py [--seeds 1,2,3] [--steps 40] [--model DIR]      writes to build/proof-fault

The runs are those of fault_runs.py; the prover is this program (reward.proof_command), which knows the hidden tests.
Ends with status 1 if the audit did not find the fault, raised an alarm in the good run, the pass rate with it is not
within 2 points of the good run's (mean over seeds), or the fault does no damage without it.

    bench/proof_fault.py prove TASKS.jsonl FAULT_AT SEED      answers questions, one JSON object a line
"""
import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import fault_runs  # noqa: E402
from judge_endpoint import Tasks  # noqa: E402


@contextlib.contextmanager
def prover(options, run, seed, fault_at):
    command = [sys.executable, os.path.abspath(__file__), "prove", os.path.abspath(f"{options.folder}/train.jsonl"),
               str(fault_at), str(seed)]
    yield f"""[reward]
weights = {{proof = 1.0}}
all_or_nothing = true
proof_command = {json.dumps(command)}
command_stays = true
command_slots = 64
"""


def prove(tasks, fault_at, seed):
    tasks, verifier = Tasks(tasks), fault_runs.Verifier(int(fault_at), int(seed))
    for line in sys.stdin:
        question = json.loads(line)
        goal, answer = tasks.goal(question["prompt"]), question["submission"]
        verdict = {"parts": {"unknown": 1}}  # of an evaluation, which runs the tests
        if goal in tasks.cases:
            verdict = {"score": int(verifier.accepts(tasks.right(goal, answer), answer)), "comment": "scripted"}
        print(json.dumps({"id": question["id"], **verdict}), flush=True)


if sys.argv[1:2] == ["prove"]:
    prove(*sys.argv[2:])
else:
    fault_runs.main(__doc__, "build/proof-fault", "proof", prover)
