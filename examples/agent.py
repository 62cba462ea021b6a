#!/usr/bin/env python3
"""The smallest agent: asks a model over the OpenAI API, writes what it answers, tests it, asks again.

Runs anywhere with Python's standard library. In a Tidemill box OPENAI_BASE_URL, OPENAI_API_KEY and
OPENAI_MODEL name the policy, and TIDEMILL_TASK is a JSON file with what the agent may know of its task:
prompt, answer_file, answer_prefix, answer_suffix, examples (tests it may run) and max_turns.

A task with an answer file is answered by its content (the first fenced block of the reply, or all of it).
In any other task the model works with the shell: each fenced block is a command, its output goes back, and a
reply without a block ends the episode. docs/agents.md describes how to train it.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request

with open(os.environ["TIDEMILL_TASK"], encoding="utf-8") as file:
    TASK = json.load(file)
SECONDS = 60  # of one command
OUTPUT = 4000  # characters of it that the model is shown


def ask(messages):
    """One turn of the model: its text, and whether it came to its end."""
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    with urllib.request.urlopen(request) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["message"]["content"] or "", choice["finish_reason"] != "length"


def block(text):
    """The first fenced block of a reply, or None."""
    found = re.search(r"```[^\n]*\n(.*?)```", text, re.DOTALL)
    return found.group(1) if found else None


def run(command, folder, text=""):
    """Exit status and output of a command; a command that takes too long has failed."""
    try:
        done = subprocess.run(command, cwd=folder, input=text, capture_output=True, timeout=SECONDS,
                              text=True, errors="replace", check=False)
        return done.returncode, done.stdout, done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, "", str(error)


def first_failure(tests):
    """The name of the first visible test that fails, or None."""
    with tempfile.TemporaryDirectory() as folder:
        for path in tests.get("sources", []):
            if os.path.exists(path):
                os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
                shutil.copy(path, os.path.join(folder, path))
        for path, content in tests.get("harness", {}).items():
            with open(os.path.join(folder, path), "w", encoding="utf-8") as out:
                out.write(content)
        if tests.get("build"):
            status, _, errors = run(tests["build"], folder)
            if status != 0:
                return "the build failed:\n" + errors[:OUTPUT]
        cases = tests.get("cases", [])
        if tests.get("mode") == "lines":  # one process answers all of them, line by line
            _, printed, _ = run(tests["run"], folder, "".join(c.get("input", "") + "\n" for c in cases))
            printed = printed.split("\n") + [""] * len(cases)
        else:
            printed = [run(tests["run"], folder, case.get("input", ""))[1] for case in cases]
        for case, got in zip(cases, printed):
            if got.strip() != case["expected"].strip():
                return case.get("name") or "input " + case.get("input", "")
    return None


def answer_file(text):
    """Writes the answer and tests it: what the model is told, or None where nothing is wrong."""
    if not text:
        return ""
    content = block(text)
    with open(TASK["answer_file"], "w", encoding="utf-8") as out:
        out.write(TASK.get("answer_prefix", "") + (text if content is None else content) +
                  TASK.get("answer_suffix", ""))
    return first_failure(TASK["examples"]) if "examples" in TASK else None


def shell(text):
    """Runs the command of a reply: what the model is told, or None where there is none."""
    command = block(text)
    if command is None:
        return None
    status, printed, errors = run(["/bin/sh", "-c", command], ".")
    return f"exit status {status}\n" + (printed + errors)[-OUTPUT:]


def main():
    act = answer_file if TASK.get("answer_file") else shell
    messages = [{"role": "user", "content": TASK["prompt"]}]
    for _ in range(TASK.get("max_turns", 8)):
        text, whole = ask(messages)
        if not whole:
            break
        told = act(text)
        if told is None:
            break
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": told}]


main()
