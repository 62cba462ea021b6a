#!/usr/bin/env python3
"""A family of tasks with two independent parts, each checked by a tool that takes two seconds (examples/background.sh).

  background.py shape FROM OUT            the files of a small model: FROM is one of `tidemill tasks model --family cfunc`
  background.py tasks COUNT SEED OUT      a task file
  background.py lessons COUNT SEED OUT    demonstrations: at most one call in ten is in the background
  background.py report OUT RUN EPISODES [RUN EPISODES]   what came of it, from `tidemill runs export --eval after`

A task gives a digit for each part; the answer to a part is the digit plus one, modulo ten. The tool `check` takes part
and answer, and leaves the file that is graded. A policy that calls it in the background for both parts waits once.
"""
import json
import os
import random
import shutil
import sys

END, USER, TOOL, ASSISTANT = "<|end|>", "<|fail|>", "<|tool|>", "<|agent|>"
OPEN = '<tool_call>\n{"name": "check", "arguments": {"part": "%d", "value": "'
PLAIN, BEHIND = '"}}\n</tool_call>', '", "background": true}}\n</tool_call>'
WAIT = '<tool_call>\n{"name": "wait", "arguments": {"for": "all"}}\n</tool_call>'
DONE = "done"
WORDS = [OPEN % 1, OPEN % 2, PLAIN, BEHIND, WAIT, DONE, "part 1: ", " part 2: ", TOOL, ASSISTANT]
# Tool results are long and all alike: the template shows that there was one.
TEMPLATE = """{%- for m in messages -%}
{%- if m.role == 'user' -%}<|fail|>{{ m.content }}
{%- elif m.role == 'tool' -%}<|tool|>
{%- elif m.role == 'assistant' -%}<|agent|>{{ m.content }}
{%- for call in m.tool_calls or [] -%}
<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}<|end|>
{%- elif tools and m.role == 'none' -%}{{ tools | tojson }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|agent|>{%- endif -%}"""


def shape(source, out):
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(source, out)

    def change(name, edit):
        with open(os.path.join(out, name)) as file:
            content = json.load(file)
        edit(content)
        with open(os.path.join(out, name), "w") as file:
            json.dump(content, file, indent=1)

    def tokens(tokenizer):
        kept = tokenizer["added_tokens"][:2]
        added = [dict(kept[0], id=258 + at, content=word, special=word in (TOOL, ASSISTANT))
                 for at, word in enumerate(WORDS)]
        tokenizer["added_tokens"] = kept + added
    change("tokenizer.json", tokens)
    change("tokenizer_config.json", lambda config: config.update(chat_template=TEMPLATE))
    change("config.json", lambda config: config.update(vocab_size=258 + len(WORDS)))


def draw(rng):
    return rng.randrange(10), rng.randrange(10)


def right(digit):
    return (digit + 1) % 10


def prompt_of(digits):
    return "part 1: %d part 2: %d" % digits


def tasks(count, seed, out):
    rng = random.Random(seed)
    with open(out, "w") as file:
        for number in range(count):
            digits = draw(rng)
            expected = "%d\n%d" % tuple(right(digit) for digit in digits)
            grading = {"run": ["/bin/cat", "part1.txt", "part2.txt"], "sources": ["part1.txt", "part2.txt"],
                       "mode": "process", "cases": [{"name": "both parts", "expected": expected}]}
            file.write(json.dumps({"id": "two-%d-%d" % (seed, number), "prompt": prompt_of(digits), "tools": ["check"],
                                   "grading": grading}) + "\n")


def lessons(count, seed, out):
    rng = random.Random(seed)
    with open(out, "w") as file:
        for _ in range(count):
            digits = draw(rng)
            said, pending = USER + prompt_of(digits) + ASSISTANT, 0
            # A tenth of the answers is wrong, so that there is something to learn in either arm.
            for part in (1, 2):
                value = right(digits[part - 1]) if rng.random() < 0.9 else rng.randrange(10)
                background = rng.random() < 0.08
                turn = OPEN % part + str(value) + (BEHIND if background else PLAIN) + END
                file.write(json.dumps({"prompt": said, "completion": turn, "special": True}) + "\n")
                # While a call is waited for, one in the background ends, and is delivered with it.
                said += turn + TOOL * (1 if background else 1 + pending) + ASSISTANT
                pending = pending + 1 if background else 0
            if pending:
                file.write(json.dumps({"prompt": said, "completion": WAIT + END, "special": True}) + "\n")
                said += WAIT + END + TOOL * (1 + pending) + ASSISTANT
            file.write(json.dumps({"prompt": said, "completion": DONE + END, "special": True}) + "\n")


def figures(path):
    with open(path) as file:
        episodes = [json.loads(line) for line in file]
    calls = [call for e in episodes for call in e["calls"] if call["tool"] == "check"]
    return {"episodes": len(episodes), "pass": sum(bool(e["solved"]) for e in episodes) / max(1, len(episodes)),
            "seconds": sum(e["finished_ms"] - e["started_ms"] for e in episodes) / 1000 / max(1, len(episodes)),
            "waiting": sum(e["time"]["tool_ms"] for e in episodes) / 1000 / max(1, len(episodes)),
            "background": sum(bool(call["handle"]) for call in calls) / max(1, len(calls))}


def report(out, *arms):
    rows = {name: figures(path) for name, path in zip(arms[::2], arms[1::2])}
    for name, row in rows.items():
        print("%-24s %4d episodes  pass %5.1f %%  %6.2f s each, %5.2f s waiting  %5.1f %% of calls in the background" % (
            name, row["episodes"], 100 * row["pass"], row["seconds"], row["waiting"], 100 * row["background"]))
    with open(out, "w") as file:
        json.dump(rows, file, indent=1)
    if len(rows) < 2:
        return
    control, learned = list(rows.values())[-2:]
    saved = 1 - learned["seconds"] / control["seconds"]
    print("an episode is %.0f %% shorter; pass rate %+.1f points" % (100 * saved,
                                                                    100 * (learned["pass"] - control["pass"])))
    if saved < 0.25 or learned["pass"] < control["pass"] - 0.02:
        sys.exit("missed: at least 25 % shorter at a pass rate at most 2 points lower")


if __name__ == "__main__":
    what, *words = sys.argv[1:] or ["help"]
    if what in ("tasks", "lessons"):
        {"tasks": tasks, "lessons": lessons}[what](int(words[0]), int(words[1]), words[2])
    elif what in ("shape", "report"):
        {"shape": shape, "report": report}[what](*words)
    else:
        sys.exit(__doc__)
