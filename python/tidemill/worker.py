"""Keeps functions running: python3 -m tidemill.worker FILE NAME [FILE NAME]. A question is a line of standard input, an
answer a line of standard output; what the functions print goes to standard error, where the program's log is. Each
question is asked of each function, and their answers are one."""
from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from .function import KeptFunction

MODULES: dict[str, ModuleType] = {}  # by file


def load(file: str, name: str) -> KeptFunction:
    """Imports the file under a name of its own, so that what a script guards by __main__ does not run."""
    if file not in MODULES:
        path = Path(file)
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location("tidemill_user_" + path.stem, path)
        if spec is None or spec.loader is None:
            raise SystemExit(f"{file} is not a Python file")
        MODULES[file] = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = MODULES[file]
        spec.loader.exec_module(MODULES[file])
    found = getattr(MODULES[file], name, None)
    if not isinstance(found, KeptFunction):
        raise SystemExit(f"{file} has no function {name} that a run can ask; decorate it with @tidemill.scorer, tool, "
                         "advantage or filter")
    return found


async def ask(kept: KeptFunction, question: dict[str, Any], pool: ThreadPoolExecutor) -> dict[str, Any]:
    try:
        arguments, named = kept.arguments(question)
        if inspect.iscoroutinefunction(kept.function):
            result = await kept.function(*arguments, **named)
        else:
            result = await asyncio.get_running_loop().run_in_executor(
                pool, lambda: kept.function(*arguments, **named))
        return kept.answer(result, arguments, named)
    except Exception as error:  # a failure of the function is no reward of zero
        if (refusal := kept.refusal(error)) is not None:
            return refusal
        # The program's messages show the beginning: what it was and where come first.
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return {"error": f"{type(error).__name__}: {error} ({where})\n{traceback.format_exc(limit=-8)}"}


async def answer(functions: list[KeptFunction], line: str, pool: ThreadPoolExecutor, out: TextIO) -> None:
    question = json.loads(line)
    said: dict[str, Any] = {"id": question["id"]}
    for kept in functions:
        said.update(await ask(kept, question, pool))
    out.write(json.dumps(said) + "\n")
    out.flush()


async def serve(functions: list[KeptFunction], lines: TextIO, out: TextIO) -> None:
    pool = ThreadPoolExecutor(max_workers=sum(kept.slots for kept in functions))
    loop = asyncio.get_running_loop()
    open_questions: set[asyncio.Task[None]] = set()
    while line := await loop.run_in_executor(None, lines.readline):
        task = loop.create_task(answer(functions, line, pool, out))
        open_questions.add(task)
        task.add_done_callback(open_questions.discard)
    if open_questions:
        await asyncio.wait(open_questions)


def main() -> None:
    words = sys.argv[1:]
    if not words or len(words) % 2:
        raise SystemExit("usage: python3 -m tidemill.worker FILE NAME [FILE NAME]")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a print in a function must not become an answer
    functions = [load(file, name) for file, name in zip(words[::2], words[1::2])]
    asyncio.run(serve(functions, sys.stdin, answers))


if __name__ == "__main__":
    main()
