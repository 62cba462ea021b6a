"""Tasks and demonstrations of examples/hints.sh, and its report.

  hints.py tasks PROJECT.jsonl OUT.jsonl SHARE    tasks of the family `project` with an error message; SHARE: the
                                                  first or last part of them, 0.8 or -0.2
  hints.py demonstrations OUT.jsonl COUNT SEED    how to answer, and how to answer again after an error message
  hints.py report TARGET ARM=RUN ..               episodes until the pass rate on held-out tasks reached TARGET;
                                                  exits with 1 where the first arm did not need fewer than the others

A task says what is wanted in words; eight helper functions h0 .. h7 have names that say nothing. The error message of a
wrong answer names the helper that was to be called.
"""
import json
import random
import re
import sqlite3
import sys

# As src/tasks/project.cc has them: two phrasings of each operation, in the order of its helpers' sources.
WORDS = [("greatest common divisor", "largest common factor"), ("least common multiple", "smallest shared multiple"),
         ("number of differing bits", "hamming distance"), ("digit sum of the product", "cross total after multiplying"),
         ("count of primes between", "prime numbers in the range"),
         ("rounded down hypotenuse", "whole length of the vector"),
         ("power modulo 97", "remainder of repeated multiplication"),
         ("divisors of the sum", "how many divide both together")]
OUTER = [("", ""), (" plus ", "+"), (" minus ", "-"), (" times ", "*")]


def right_helper(task):
    operation = next(i for i, words in enumerate(WORDS) if task["prompt"].startswith(words))
    return re.findall(r"^int (h\d)\(", task["grading"]["harness"]["main.c"], re.M)[operation]


def tasks(source, out, share):
    lines = [json.loads(line) for line in open(source)]
    count = round(abs(share) * len(lines))
    with open(out, "w") as file:
        for task in lines[:count] if share > 0 else lines[-count:]:
            case = dict(task["grading"]["cases"][0], name=right_helper(task))
            del task["max_turns"]  # the config says it
            file.write(json.dumps(dict(task, examples={"cases": [case]})) + "\n")


def demonstrations(out, count, seed):
    draw = random.Random(seed)
    with open(out, "w") as file:
        for _ in range(count):
            outer, sign = draw.choice(OUTER)
            constant = str(draw.randint(1, 9)) if sign else ""
            prompt = draw.choice(draw.choice(WORDS)) + outer + constant + "\nreturn "
            answer = lambda: f"h{draw.randrange(8)}(a,b){sign}{constant}<|end|>"
            right = answer()
            if draw.random() < 0.5:
                prompt += f"{answer()}<|fail|>{right[:2]}\nreturn "
            file.write(json.dumps({"prompt": prompt, "completion": right, "special": True}) + "\n")


def curve(run):
    """(episodes of training until the step, pass rate) for each evaluation."""
    stored = sqlite3.connect(f"file:runs/{run}/run.db?mode=ro", uri=True)
    times, points = {0: 0}, []
    for line in open(f"runs/{run}/metrics.jsonl"):
        entry = json.loads(line)
        if entry["kind"] == "step":
            times[int(entry["step"])] = entry["time_ms"]
        if entry["kind"] == "eval":
            match = re.fullmatch(r"during-step-(\d+)", entry["name"])
            step = int(match.group(1)) if match else 0
            if match or entry["name"] == "before":
                points.append((step, entry["pass_rate"]))
    counted = "SELECT count(*) FROM trajectories WHERE purpose = 1 AND stored_ms <= ?"
    return [(stored.execute(counted, (times.get(step, 0),)).fetchone()[0], rate) for step, rate in sorted(points)]


def report(target, arms):
    needed = []
    for arm in arms:
        name, run = arm.split("=")
        points = curve(run)
        reached = next((episodes for episodes, rate in points if rate >= target), None)
        needed.append(float("inf") if reached is None else reached)
        print(f"{name:8} pass rate {target} after {'(not reached)' if reached is None else reached} episodes")
        print("         " + " ".join(f"{episodes}:{rate:.2f}" for episodes, rate in points))
    return 0 if needed[0] < min(needed[1:]) else 1


if __name__ == "__main__":
    command, words = sys.argv[1], sys.argv[2:]
    if command == "tasks":
        tasks(words[0], words[1], float(words[2]))
    elif command == "demonstrations":
        demonstrations(words[0], int(words[1]), int(words[2]))
    else:
        sys.exit(report(float(words[0]), words[1:]))
