#!/usr/bin/env python3
"""Usage: wheel_check.py PROGRAM

The first commands of docs/python.md with an installed `tidemill`: doctor, a small model and tasks, init, train, a run
from Python with a scorer, serve. Needs what doctor asks for (bubblewrap, tcc). Prints a line for each and ends with
status 1 if one failed. It has no dependency, so that a machine with nothing but Python can run it.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FAILED = []


def check(name, good, detail=""):
    print(f"{'ok  ' if good else 'FAIL'}  {name}{'  ' + str(detail) if detail != '' else ''}", flush=True)
    if not good:
        FAILED.append(name)


SCORER = '''import tidemill

@tidemill.scorer
def short(episode):
    """Differs within a group and depends on no sample."""
    return 0.1 + 0.2 * (episode.member % 4)
'''

PYTHON = '''import sys, tidemill
from rewards import short

run = tidemill.Run("run.toml", {"run.steps": 2, "dashboard.web": False, "replay.drop_zero_variance": False},
                   name="python", reward=short)
with run:
    steps = [line["step"] for line in run.follow("step")]
summary = run.wait()
rewards = {round(row["reward"], 3) for row in run.episodes(purpose="train") if row["scored"]}
with tidemill.serve("model") as server:
    said = server.chat([{"role": "user", "content": "hello"}], max_tokens=4)
print(summary["status"], steps, sorted(rewards), said["object"])
'''


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    program = os.path.abspath(sys.argv[1])
    python = os.path.join(os.path.dirname(program), "python3")
    with tempfile.TemporaryDirectory(prefix="tidemill-wheel-") as folder:
        there = pathlib.Path(folder)

        def run(*words):
            done = subprocess.run([str(word) for word in words], cwd=there, capture_output=True, text=True)
            return done.returncode, done.stdout, done.stderr

        def works(name, *words):
            status, out, error = run(program, *words)
            check(name, status == 0, (out or error).strip().splitlines()[-1:] if status == 0 else out + error)
            return out

        works("--version", "--version")
        status, out, error = run(program, "doctor", "--json")
        report = json.loads(out) if out.startswith("{") else {}
        check("doctor finds the machine ready", status == 0, report.get("libtorch") if status == 0 else out + error)
        works("plan finds the shapes", "plan", "--model", "0.5b", "--memory", "80GB")
        works("tasks generate", "tasks", "generate", "--family", "cfunc", "--count", "60", "--seed", "3", "--difficulty", "1,2",
              "--out", "train.jsonl")
        works("tasks model", "tasks", "model", "--family", "cfunc", "--width", "32", "--layers", "2", "--heads", "2",
              "--feed-forward", "64", "--out", "shape")
        works("model new", "model", "new", "--config", "shape/config.json", "--tokenizer", "shape", "--seed", "1", "--out", "model")
        works("init --demo", "init", "--demo", "--model", "model", "--tasks", "train.jsonl")
        works("train", "train", "run.toml", "--json", "--no-web", "--set", "run.steps=2", "--set", "rollout.groups_per_step=4",
              "--set", "replay.drop_zero_variance=false", "--set", "reward.weights.format=0.1")
        works("runs list", "runs", "list")
        (there / "rewards.py").write_text(SCORER)
        (there / "first.py").write_text(PYTHON)
        status, out, error = run(python, "first.py")
        check("a run from Python, scored by a function, and a server", status == 0 and out.startswith("done [1, 2]"),
              out.strip() if status == 0 else out + error)
    print(f"{len(FAILED)} failed" if FAILED else "all good")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
