#!/usr/bin/env python3
"""An external scorer and judge: reads one JSON question on standard input, writes one JSON answer.

As the scorer "command" it answers with a score; as the judge of a review ("scorer": "judge") with
sub-scores for style and security. It only looks at the text of the answer; replace it with your own model.

    echo '{"scorer":"command","submission":"return a+b;","files":[]}' | examples/judge.py
"""
import json
import re
import sys

VERSION = 1  # raise it when the meaning of a score changes; stored verdicts are then scored again


def style(text):
    findings = []
    long_lines = sum(len(line) > 100 for line in text.splitlines())
    if long_lines:
        findings.append(f"{long_lines} lines over 100 characters")
    if re.search(r"\bgoto\b", text):
        findings.append("goto")
    if re.search(r"[^\w\s]{6,}", text):
        findings.append("a run of punctuation")
    return max(0.0, 1 - 0.3 * len(findings)), ", ".join(findings) or "reads well"


def security(text):
    names = re.findall(r"\b(gets|strcpy|strcat|sprintf|system|eval|exec)\s*\(", text)
    return (0.0, "calls " + ", ".join(sorted(set(names)))) if names else (1.0, "nothing dangerous")


def main():
    question = json.load(sys.stdin)
    text = question.get("submission", "") + "".join(
        file.get("content", "") for file in question.get("files", []))
    scores = {"style": style(text), "security": security(text)}
    # The second review asks only about low sub-scores; this judge gives the same answer again.
    parts = {name: {"score": score, "comment": comment} for name, (score, comment) in scores.items()}
    answer = {"parts": parts, "version": VERSION}
    if question.get("scorer") != "judge":
        answer["score"] = sum(score for score, _ in scores.values()) / len(scores)
        answer["comment"] = "; ".join(f"{name}: {comment}" for name, (_, comment) in scores.items())
    json.dump(answer, sys.stdout)


main()
