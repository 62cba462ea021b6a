"""The comparison of examples/distill.sh.

  distill.py ALL.json SECONDS_SUPERVISED SECONDS_DISTILLED NAME=RUN ..     evaluations of the same tasks, by name

Prints the share of held-out tasks that one answer solves, with 95 % intervals over tasks, and the difference between
`distilled` and `supervised`, paired over tasks. Exits with 1 where the interval of the difference is not above 0.
"""
import json
import sqlite3
import statistics
import sys


def solved(run):
    """Task -> share of its answers that solve it."""
    stored = sqlite3.connect(f"file:runs/{run}/run.db?mode=ro", uri=True)
    return dict(stored.execute("SELECT task, avg(solved) FROM trajectories WHERE purpose = 2 AND scored GROUP BY task"))


def interval(values):
    return statistics.mean(values), 1.96 * statistics.stdev(values) / len(values) ** 0.5


def main(out, supervised_seconds, distilled_seconds, evaluations):
    rates = {name: solved(run) for name, run in (one.split("=") for one in evaluations)}
    tasks = sorted(set.intersection(*(set(rate) for rate in rates.values())))
    figures = {"tasks": len(tasks), "seconds": {"supervised": float(supervised_seconds),
                                                "distilled": float(distilled_seconds)}}
    for name, rate in rates.items():
        figures[name] = interval([rate[task] for task in tasks])
        print(f"{name:12} {100 * figures[name][0]:5.1f} % ± {100 * figures[name][1]:.1f}")
    gain = interval([rates["distilled"][task] - rates["supervised"][task] for task in tasks])
    figures["gain"] = gain
    print(f"distilled - supervised: {100 * gain[0]:.1f} ± {100 * gain[1]:.1f} points, paired over {len(tasks)} tasks; "
          f"{distilled_seconds} s and {supervised_seconds} s")
    with open(out, "w") as file:
        json.dump(figures, file)
    return 0 if gain[0] - gain[1] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4], sys.argv[4:]))
