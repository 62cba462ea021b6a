#!/usr/bin/env python3
"""What a run of examples/mbpp.sh learned: the curve, which tasks went from never to sometimes, transcripts.

usage: examples/mbpp_report.py RUN SET.. [--transcripts N] [--tidemill PROGRAM]
RUN: as in runs/RUN; SET: pyfunc, mbpp. Reads the databases of runs/RUN and of the evaluations
runs/RUN-before-SET and runs/RUN-after-SET. Prints one JSON object for the curve and one for each set, then the
transcripts of the first N tasks that were never solved before and are solved by more than half of the samples now.
"""
import argparse, json, os, sqlite3, subprocess

TRAINING, EVALUATION = 1, 2


def rows(run, query):
    path = os.path.join("runs", run, "run.db")
    if not os.path.exists(path):
        raise SystemExit(f"{path}: no such file; the counts need evaluations before and after (BEFORE=1)")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def curve(run, points=24):
    """Pass rate of training episodes in equal parts of the time: (seconds, episodes so far, pass rate)."""
    seen = rows(run, f"SELECT finished_ms, solved FROM trajectories WHERE purpose = {TRAINING} AND scored = 1 "
                     "ORDER BY finished_ms")
    if not seen:
        return []
    first = rows(run, f"SELECT min(started_ms) FROM trajectories WHERE purpose = {TRAINING}")[0][0]
    width = (seen[-1][0] - first) / points or 1
    found, part, at, solved, count = [], 1, 0, 0, 0
    for finished, passed in seen + [(float("inf"), 0)]:
        while part <= points and finished > first + part * width:
            if count:
                found.append((round(part * width / 1000), at, round(solved / count, 4)))
            part, solved, count = part + 1, 0, 0
        at, solved, count = at + 1, solved + passed, count + 1
    return found


def shares(run):
    """task: share of the samples at temperature 1 that solved it."""
    return dict(rows(run, f"SELECT task, avg(solved) FROM trajectories WHERE purpose = {EVALUATION} AND scored = 1 "
                          "AND eval_name NOT LIKE '%greedy' GROUP BY task"))


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("run")
    words.add_argument("sets", nargs="+")
    words.add_argument("--transcripts", type=int, default=0)
    words.add_argument("--tidemill", default="build/release/tidemill")
    asked = words.parse_args()
    if os.path.isdir(os.path.join("runs", asked.run)):
        print(json.dumps({"run": asked.run, "curve": [dict(zip(("seconds", "episodes", "pass_rate"), p))
                                                      for p in curve(asked.run)]}))
    for name in asked.sets:
        before, after = shares(f"{asked.run}-before-{name}"), shares(f"{asked.run}-after-{name}")
        common = sorted(before.keys() & after.keys())
        gained = [t for t in common if before[t] == 0 and after[t] > 0]
        print(json.dumps({"run": asked.run, "set": name, "tasks": len(common),
                          "never_to_sometimes": len(gained),
                          "never_to_more_than_half": sum(after[t] > 0.5 for t in gained),
                          "sometimes_to_never": sum(before[t] > 0 and after[t] == 0 for t in common),
                          "always_now": sum(after[t] == 1 for t in common)}))
        for task in [t for t in gained if after[t] > 0.5][:asked.transcripts]:
            for when in ("before", "after"):
                print(f"--- {task}, {when}", flush=True)
                subprocess.run([asked.tidemill, "runs", "episodes", f"{asked.run}-{when}-{name}", "--task", task,
                                "--newest", "1"], check=True)


if __name__ == "__main__":
    main()
