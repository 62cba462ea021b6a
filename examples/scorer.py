#!/usr/bin/env python3
"""A scorer that stays: one JSON question a line on standard input, one JSON answer a line back.

    [reward]
    command = ["python3", "examples/scorer.py"]
    command_stays = true
    weights = { command = 1.0 }

Answers may come in any order; the "id" of the question says which one is meant. Load a model or open
a connection before the loop: it happens once. What is printed to standard error goes to the log.
"""
import json
import sys

VERSION = 1  # raise it when the meaning of a score changes; stored verdicts are then scored again


def score(question):
    """Mostly the tests; a tenth for an answer that is short."""
    grade = question["tools"].get("grade", {})
    passed = grade.get("tests_passed", 0) / max(1, grade.get("tests_total", 0))
    short = 1 if 0 < len(question["submission"]) < 400 else 0
    return 0.9 * passed + 0.1 * short, f"{passed:.0%} of the tests, {'short' if short else 'long or empty'}"


for line in sys.stdin:
    question = json.loads(line)
    try:
        value, comment = score(question)
        answer = {"score": value, "comment": comment, "version": VERSION}
    except Exception as error:  # a failure of the scorer is no reward of zero
        answer = {"error": repr(error)}
    print(json.dumps({"id": question["id"], **answer}), flush=True)
