"""@scorer: a Python function as the reward of a run.

    @tidemill.scorer
    def brevity(episode):
        return episode.tests_passed_share - 0.001 * len(episode.submission)

    tidemill.Run("run.toml", reward=brevity).start()

The program starts one interpreter that imports the function's file and keeps it running. The function may be async.
An exception is a failure of the scorer with its traceback: the episode is scored again and then stale, never zero.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from .function import KeptFunction


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
    def metadata(self) -> Any:
        """The task's own, as its file has it."""
        return self.question.get("metadata")

    @property
    def files(self) -> dict[str, str]:
        """The workspace the agent left: path to content. Large files are not among them."""
        return {file["path"]: file["content"] for file in self.question.get("files", []) if "content" in file}

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


class Scorer(KeptFunction):
    kind = "scorer"

    def __init__(self, function: Callable[[Episode], Any], version: int, slots: int):
        super().__init__(function, slots)
        if version < 1:
            raise ValueError(f"version must be at least 1, got {version}")
        self.version = version

    def __repr__(self) -> str:
        return f"<tidemill scorer {self.__name__}, version {self.version}>"

    def keys(self) -> dict[str, Any]:
        """The config keys with which a run is scored by it."""
        return {"reward.command": self.command, "reward.command_stays": True, "reward.command_slots": self.slots,
                "reward.weights": {"command": 1.0}}

    def arguments(self, question: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (Episode(question),), {}

    def answer(self, result: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Of a number, (number, comment), a Score or a dict."""
        if isinstance(result, Mapping):
            return {"version": self.version, **result}
        if isinstance(result, Score):
            said: dict[str, Any] = {"score": result.value, "comment": result.comment, "version": self.version}
            if result.parts:
                said["parts"] = dict(result.parts)
            if result.turn_rewards:
                said["turn_rewards"] = list(result.turn_rewards)
            return said
        comment = ""
        if isinstance(result, tuple) and len(result) == 2:
            result, comment = result
        if isinstance(result, bool) or not isinstance(result, (int, float)) or not math.isfinite(result):
            raise TypeError("a scorer must return a finite number, (number, comment), a Score or a dict, "
                            f"got {result!r}")
        return {"score": float(result), "comment": str(comment), "version": self.version}


@overload
def scorer(function: Callable[[Episode], Any]) -> Scorer: ...
@overload
def scorer(*, version: int = ..., slots: int = ...) -> Callable[[Callable[[Episode], Any]], Scorer]: ...
def scorer(function: Callable[[Episode], Any] | None = None, *, version: int = 1, slots: int = 2) -> Any:
    """Makes a function a scorer. Raise `version` when the meaning of its scores changes: stored episodes are then
    scored again. `slots` questions are open at once."""
    if function is None:
        return lambda inner: Scorer(inner, version, slots)
    return Scorer(function, version, slots)
