"""A small model that is trained as a judge and then checked: what judge_model.py and verifier_model.py share."""
import argparse
import json
import os
import subprocess
import sys


def parser_of(description, folder, minutes, updates):
    """For the options that every such benchmark has; the last two are the bounds of the training."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/tidemill")
    parser.add_argument("--folder", default=folder)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=minutes, help="of training the judge, at most")
    parser.add_argument("--updates", type=int, default=updates, help="of the judge, at most")
    return parser


def tidemill(options, *words, log=None):
    done = subprocess.run([options.program, *words], capture_output=True, text=True)
    if log:
        with open(log, "w") as file:
            file.write(done.stderr)
    if done.returncode != 0:
        sys.exit(f"tidemill {' '.join(words[:2])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def train(options, examples, start, **settings):
    """Trains FOLDER/model on a file of demonstrations; `start` is the option of warmup that says from what. Gives the
    figures of the training."""
    words = [examples, *start, "--out", f"{options.folder}/model", "--seed", options.seed, "--max-steps",
             options.updates, "--minutes", options.minutes, "--evaluate-every", 100, "--replace", "--json"]
    for name, value in settings.items():
        words += [f"--{name.replace('_', '-')}", value]
    return json.loads(tidemill(options, "warmup", *map(str, words), log=f"{options.folder}/training.log"))


def config(options, name, task, template):
    return f"""[[judge]]
name = "{name}"
endpoint = "{os.path.abspath(options.folder)}/model"
task = "{task}"
template = "{template}"
answer = "token"
temperature = 0
max_tokens = 4
concurrency = 16
"""


def check(options, cases, judge):
    """What `judge check` finds about labelled cases; `judge` is a config."""
    path = f"{options.folder}/judge.toml"
    with open(path, "w") as file:
        file.write(judge)
    return json.loads(tidemill(options, "judge", "check", cases, "--config", path, "--json"))


def finish(figures, bounds):
    """Prints the figures and which bounds they miss; ends with status 1 if there is one."""
    misses = [name for name, holds in bounds.items() if not holds]
    print(json.dumps({**figures, "misses": misses}))
    sys.exit(1 if misses else 0)
