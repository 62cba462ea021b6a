"""Tasks and demonstrations of examples/hints.sh, and its report.

  hints.py tasks LIKE.jsonl OUT.jsonl SEED                   tasks with an error message, tested as those of LIKE
  hints.py demonstrations OUT.jsonl COUNT SEED               how to answer, and how to answer again after an error
  hints.py report TARGET OUT.json NAME=RUN ..                episodes until the share of right first answers reached
                                                             TARGET; exits with 1 where the first run did not need
                                                             fewer than every other one

A task asks in words for two of eight quantities of two numbers ("hamming distance minus power modulo 97"). A project
has them in variables h0 .. h7, whose names say nothing; an answer is "h3-h0". The policy knows the project as it was
before half of the variables were renamed. The error message of a wrong answer names the two that were to be used.
"""
import itertools
import json
import math
import random
import sqlite3
import sys

# Two phrasings that the vocabulary of the family `project` has, what is meant, and C that computes it into VAR.
QUANTITIES = [
    (("greatest common divisor", "largest common factor"), math.gcd,
     "{ int x = a, y = b; while (y) { int t = x % y; x = y; y = t; } VAR = x; }"),
    (("least common multiple", "smallest shared multiple"), lambda a, b: a * b // math.gcd(a, b) if a and b else 0,
     "if (a && b) { int m = a; while (m % b) m += a; VAR = m; }"),
    (("number of differing bits", "hamming distance"), lambda a, b: bin(a ^ b).count("1"),
     "for (int x = a ^ b; x; x >>= 1) VAR += x & 1;"),
    (("digit sum of the product", "cross total after multiplying"), lambda a, b: sum(map(int, str(a * b))),
     "for (int x = a * b; x; x /= 10) VAR += x % 10;"),
    (("count of primes between", "prime numbers in the range"),
     lambda a, b: sum(x > 1 and all(x % d for d in range(2, x)) for x in range(min(a, b), max(a, b) + 1)),
     "for (int x = a < b ? a : b; x <= a || x <= b; ++x) { int p = x > 1; "
     "for (int d = 2; d * d <= x; ++d) if (x % d == 0) p = 0; VAR += p; }"),
    (("rounded down hypotenuse", "whole length of the vector"), lambda a, b: math.isqrt(a * a + b * b),
     "while ((VAR + 1) * (VAR + 1) <= a * a + b * b) ++VAR;"),
    (("power modulo 97", "remainder of repeated multiplication"), lambda a, b: pow(a, b, 97),
     "VAR = 1; for (int i = 0; i < b; ++i) VAR = VAR * a % 97;"),
    (("divisors of the sum", "how many divide both together"),
     lambda a, b: sum((a + b) % d == 0 for d in range(1, a + b + 1)),
     "for (int d = 1; d <= a + b; ++d) VAR += (a + b) % d == 0;"),
]
WANTED, PHRASED, CASES, MOST = 2, 4, 6, 12


def bindings(seed):
    """The variable of each quantity: as the policy knows the project, and as it is now. Half of them have moved."""
    draw = random.Random(f"bindings {seed}")
    old = draw.sample(range(len(QUANTITIES)), len(QUANTITIES))
    now, moved = list(old), draw.sample(range(len(QUANTITIES)), len(QUANTITIES) // 2)
    for index, other in zip(moved, moved[1:] + moved[:1]):
        now[index] = old[other]
    return old, now


def question(words):
    return " minus ".join(words) + "\nreturn "


def answer(variables):
    return "-".join(f"h{one}" for one in variables)


def message(variables):
    return ",".join(f"h{one}" for one in variables)


def tasks(like, out, seed):
    with open(like) as file:
        model = json.loads(file.readline())
    draw = random.Random(seed)
    _, variable = bindings(seed)
    prefix = "int f(int a, int b) {\n"
    for (_, _, code), index in zip(QUANTITIES, variable):
        prefix += f"  int h{index} = 0;\n  {code.replace('VAR', f'h{index}')}\n"
    prefix += "  return "
    made = []
    for wanted in itertools.permutations(range(len(QUANTITIES)), WANTED):
        for _ in range(PHRASED):
            words = [draw.choice(QUANTITIES[one][0]) for one in wanted]
            right = [variable[one] for one in wanted]
            cases = []
            for _ in range(2 * CASES):
                a, b = draw.randint(0, MOST), draw.randint(0, MOST)
                first, *others = (QUANTITIES[one][1](a, b) for one in wanted)
                cases.append({"input": f"{a} {b}", "expected": str(first - sum(others))})
            grading = dict(model["grading"], cases=cases[:CASES],
                           specification={"source": prefix + answer(right) + model["answer_suffix"], "function": "f",
                                          "low": 0, "high": MOST})
            shown = [dict(case, name=message(right)) for case in cases[CASES:]]
            made.append(dict(model, id=f"hints-{seed}-{len(made)}", prompt=question(words), tags=["hints"],
                             answer_prefix=prefix, grading=grading, examples={"cases": shown}))
    draw.shuffle(made)
    with open(out, "w") as file:
        file.writelines(json.dumps(task) + "\n" for task in made)


def demonstrations(out, count, seed):
    """First answers are of the project as it was; a second answer follows the message, whatever it says. Both have a
    slip now and then, so that the policy tries other variables, and follows the message for each variable apart."""
    draw = random.Random(seed)
    old, _ = bindings(seed)

    def slip(variables, share):
        return [draw.randrange(len(QUANTITIES)) if draw.random() < share else one for one in variables]

    with open(out, "w") as file:
        for _ in range(count):
            wanted = draw.sample(range(len(QUANTITIES)), WANTED)
            text = question(draw.choice(QUANTITIES[one][0]) for one in wanted)
            right = slip([old[one] for one in wanted], 0.05)
            if draw.random() < 0.5:
                named = draw.sample(range(len(QUANTITIES)), WANTED)
                text += f"{answer(right)}<|end|><|fail|>{message(named)}\nreturn "
                right = slip(named, 0.05)
            file.write(json.dumps({"prompt": text, "completion": answer(right) + "<|end|>", "special": True}) + "\n")


WINDOW = 256


def curve(run):
    """(episodes so far, share of the last WINDOW whose first answer was right), WINDOW episodes apart."""
    stored = sqlite3.connect(f"file:runs/{run}/run.db?mode=ro", uri=True)
    right = [solved and turns == 1 for solved, turns in stored.execute(
        "SELECT solved, turns FROM trajectories WHERE purpose = 1 AND scored ORDER BY finished_ms, seq")]
    return [(end, sum(right[end - WINDOW:end]) / WINDOW) for end in range(WINDOW, len(right) + 1, WINDOW)]


def report(target, out, arms):
    needed, curves = [], {}
    for name, run in (arm.split("=") for arm in arms):
        points = curves[name] = curve(run)
        needed.append(next((episodes for episodes, rate in points if rate >= target), math.inf))
        print(f"{name:8} {f'{needed[-1]} episodes' if needed[-1] < math.inf else 'not reached':>16}"
              f"   at the end {points[-1][1]:.2f} after {points[-1][0]}")
        print("         " + " ".join(f"{episodes}:{rate:.2f}" for episodes, rate in points[::4]))
    with open(out, "w") as file:
        json.dump({"target": target, "window": WINDOW, "curves": curves}, file)
    return 0 if needed[0] < min(needed[1:]) else 1


if __name__ == "__main__":
    command, words = sys.argv[1], sys.argv[2:]
    if command == "tasks":
        tasks(words[0], words[1], int(words[2]))
    elif command == "demonstrations":
        demonstrations(words[0], int(words[1]), int(words[2]))
    else:
        sys.exit(report(float(words[0]), words[1], words[2:]))
