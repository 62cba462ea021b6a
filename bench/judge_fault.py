#!/usr/bin/env python3
"""A judge that turns bad in the middle of a training run, with and without the audit.

    bench/judge_fault.py [--seeds 1,2,3] [--steps 40] [--model DIR]      writes to build/judge-fault

The runs are those of fault_runs.py; the judge is a program behind HTTP that knows the hidden tests. Ends with status 1
if the audit did not find the fault, raised an alarm in the good run, the pass rate with it is not within 2 points of
the good run's (mean over seeds), or the fault does no damage without it.
"""
import contextlib
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(__file__))
import fault_runs  # noqa: E402
from judge_endpoint import Endpoint, Tasks  # noqa: E402


@contextlib.contextmanager
def judge(options, run, seed, fault_at):
    tasks, verifier = Tasks(f"{options.folder}/train.jsonl"), fault_runs.Verifier(fault_at, seed)
    lock = threading.Lock()

    def score(goal, submission):
        right = tasks.right(goal, submission)
        with lock:
            return 1.0 if verifier.accepts(right, submission) else 0.0

    endpoint = Endpoint(score)
    yield f"""[reward]
weights = {{judge = 1.0}}
all_or_nothing = true
[[judge]]
name = "scripted"
endpoint = "{endpoint.url}"
template = "compact"
concurrency = 64
cache = 0
"""
    endpoint.close()


fault_runs.main(__doc__, "build/judge-fault", "judge", judge)
