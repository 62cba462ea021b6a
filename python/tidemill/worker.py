"""Keeps one scorer running: python3 -m tidemill.worker FILE NAME. A question is a line of standard input, an answer a
line of standard output; what the function prints goes to standard error, where the program's log is."""
from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from .scorer import Episode, Score, Scorer


def load(file: str, name: str) -> Scorer:
    """Imports the file under a name of its own, so that what a script guards by __main__ does not run."""
    path = Path(file)
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("tidemill_user_" + path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not isinstance(found, Scorer):
        raise SystemExit(f"{file} has no scorer {name}; decorate the function with @tidemill.scorer")
    return found


def answer_of(result: Any, version: int) -> dict[str, Any]:
    """What the program wants to hear: of a number, (number, comment), a Score or a dict."""
    if isinstance(result, Mapping):
        return {"version": version, **result}
    if isinstance(result, Score):
        answer: dict[str, Any] = {"score": result.value, "comment": result.comment, "version": version}
        if result.parts:
            answer["parts"] = dict(result.parts)
        if result.turn_rewards:
            answer["turn_rewards"] = list(result.turn_rewards)
        return answer
    comment = ""
    if isinstance(result, tuple) and len(result) == 2:
        result, comment = result
    if isinstance(result, bool) or not isinstance(result, (int, float)) or not math.isfinite(result):
        raise TypeError(f"a scorer must return a finite number, (number, comment), a Score or a dict, got {result!r}")
    return {"score": float(result), "comment": str(comment), "version": version}


async def answer(scorer: Scorer, line: str, pool: ThreadPoolExecutor, out: TextIO) -> None:
    question = json.loads(line)
    try:
        episode = Episode(question)
        if inspect.iscoroutinefunction(scorer.function):
            result = await scorer.function(episode)
        else:
            result = await asyncio.get_running_loop().run_in_executor(pool, scorer.function, episode)
        said = answer_of(result, scorer.version)
    except Exception as error:  # a failure of the scorer is no reward of zero
        # The program's messages show the beginning: what it was and where come first.
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        said = {"error": f"{type(error).__name__}: {error} ({where})\n{traceback.format_exc(limit=-8)}"}
    out.write(json.dumps({"id": question["id"], **said}) + "\n")
    out.flush()


async def serve(scorer: Scorer, lines: TextIO, out: TextIO) -> None:
    pool = ThreadPoolExecutor(max_workers=scorer.slots)
    loop = asyncio.get_running_loop()
    open_questions: set[asyncio.Task[None]] = set()
    while line := await loop.run_in_executor(None, lines.readline):
        task = loop.create_task(answer(scorer, line, pool, out))
        open_questions.add(task)
        task.add_done_callback(open_questions.discard)
    if open_questions:
        await asyncio.wait(open_questions)


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("usage: python3 -m tidemill.worker FILE NAME")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a print in the function must not become an answer
    asyncio.run(serve(load(sys.argv[1], sys.argv[2]), sys.stdin, answers))


if __name__ == "__main__":
    main()
