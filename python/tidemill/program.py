"""Where the program is, and asking it for one JSON object."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


class TidemillError(RuntimeError):
    """The program refused or failed. `status` is its exit status: 1 failed, 2 the words or the config were wrong."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


def program() -> str:
    """The path of `tidemill`: TIDEMILL_PROGRAM, else the one in this package, which a wheel has, else what is on PATH,
    else the build of the tree this file is in."""
    named = os.environ.get("TIDEMILL_PROGRAM")
    if named:
        if not os.access(named, os.X_OK):
            raise TidemillError(f"TIDEMILL_PROGRAM is {named}, which is not a program", 2)
        return named
    packed = Path(__file__).resolve().parent / "prefix" / "bin" / "tidemill"
    if packed.exists():
        return str(packed)
    found = shutil.which("tidemill")
    if found:
        return found
    built = Path(__file__).resolve().parents[2] / "build" / "release" / "tidemill"
    if built.exists():
        return str(built)
    raise TidemillError("the program tidemill is not on PATH; put it there or set TIDEMILL_PROGRAM", 2)


def main() -> None:
    """`tidemill` on the path of a virtual environment: the program in its place."""
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


def last_lines(text: str, count: int = 8) -> str:
    """The last lines; more of them where the message that the program ended with began before."""
    lines = text.strip().splitlines()[-8 * count:]
    ended = [number for number, line in enumerate(lines) if line.startswith("tidemill: ")]
    return "\n".join(lines[min([max(0, len(lines) - count), *ended[-1:]]):])


def run_program(*words: str) -> str:
    """Standard output of `tidemill WORDS`; what it says on standard error is the message of a failure."""
    done = subprocess.run([program(), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TidemillError(last_lines(done.stderr) or f"tidemill ended with status {done.returncode}",
                            done.returncode)
    return done.stdout


def ask(*words: str) -> Any:
    """The JSON object that `tidemill WORDS --json` prints."""
    return json.loads(run_program(*words, "--json"))
