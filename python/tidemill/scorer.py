"""@scorer: a Python function as the reward of a run.

    @tidemill.scorer
    def brevity(episode):
        return episode.tests_passed_share - 0.001 * len(episode.submission)

    tidemill.Run("run.toml", reward=brevity).start()

The program starts one interpreter that imports the function's file and keeps it running. The function may be async.
An exception is a failure of the scorer with its traceback: the episode is scored again and then stale, never zero.
"""
from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Episode:
    """What a scorer is asked about: one attempt at a task."""

    question: Mapping[str, Any]  # as the program asked; docs/training.md lists its fields

    @property
    def task(self) -> str:
        return str(self.question["task"])

    @property
    def group(self) -> int:
        return int(self.question["group"])

    @property
    def member(self) -> int:
        return int(self.question["member"])

    @property
    def prompt(self) -> str:
        return str(self.question.get("prompt", ""))

    @property
    def submission(self) -> str:
        return str(self.question.get("submission", ""))

    @property
    def end(self) -> str:
        """How it ended: "submitted", or the limit that ended it."""
        return str(self.question.get("end", ""))

    @property
    def turns(self) -> int:
        return int(self.question.get("turns", 0))

    @property
    def generated_tokens(self) -> int:
        return int(self.question.get("generated_tokens", 0))

    @property
    def files(self) -> dict[str, str]:
        """The workspace the agent left: path to content."""
        return {file["path"]: file["content"] for file in self.question.get("files", [])}

    @property
    def grade(self) -> Mapping[str, Any]:
        """What the hidden tests gave: tests_passed, tests_total, compiled, cpu_ms, ..; empty without tests."""
        grade: Mapping[str, Any] = self.question.get("tools", {}).get("grade", {})
        return grade

    @property
    def tests_passed_share(self) -> float:
        return float(self.grade.get("tests_passed", 0)) / max(1, int(self.grade.get("tests_total", 0)))


@dataclass(frozen=True)
class Score:
    """An answer with more than a number. `parts` are numbers from 0 to 1; `turn_rewards` has one for each turn."""

    value: float
    comment: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    turn_rewards: list[float] = field(default_factory=list)


class Scorer:
    """A function with the command that keeps it running."""

    def __init__(self, function: Callable[[Episode], Any], version: int, slots: int):
        self.function = function
        self.version = version
        self.slots = slots
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, episode: Episode) -> Any:
        return self.function(episode)

    def __repr__(self) -> str:
        return f"<tidemill scorer {self.__name__}, version {self.version}>"

    @property
    def command(self) -> list[str]:
        try:
            file = inspect.getsourcefile(self.function)
        except TypeError:
            file = None
        if file is None or not Path(file).is_file():
            raise ValueError(f"the scorer {self.__name__} is not in a file, so no other process can import it; "
                             "write it to one (in a notebook: %%writefile scorers.py, then import it)")
        return [sys.executable, "-m", "tidemill.worker", str(Path(file).resolve()), self.__name__]

    def keys(self) -> dict[str, Any]:
        """The config keys with which a run is scored by it."""
        return {"reward.command": self.command, "reward.command_stays": True, "reward.command_slots": self.slots,
                "reward.weights": {"command": 1.0}}


def scorer(function: Callable[[Episode], Any] | None = None, *, version: int = 1, slots: int = 2) -> Any:
    """Makes a function a scorer. Raise `version` when the meaning of its scores changes: stored episodes are then
    scored again. `slots` questions are open at once."""
    if version < 0 or slots < 1:
        raise ValueError("version must be at least 0 and slots at least 1")
    if function is None:
        return lambda inner: Scorer(inner, version, slots)
    return Scorer(function, version, slots)
