"""@advantage and @filter: Python functions about the groups of a step.

    @tidemill.advantage
    def centered(group):
        mean = sum(member.reward for member in group) / len(group)
        return [member.reward - mean for member in group]

    @tidemill.filter
    def submitted(group):
        return [member.end == "submitted" for member in group]

    tidemill.Run("run.toml", advantage=centered, filter=submitted).start()

Both are asked when the learner takes a step, about each of its groups. A member that a filter leaves out is in no loss
and in no comparison. The functions may be async. An exception ends the run with its traceback, and no step is taken; a
run that is started again goes on from its last checkpoint.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from .function import KeptFunction


@dataclass(frozen=True)
class Member:
    """One episode of a group, scored."""

    said: Mapping[str, Any]  # as the program told it; docs/training.md lists its fields

    @property
    def reward(self) -> float:
        return float(self.said["reward"])

    @property
    def parts(self) -> Mapping[str, float]:
        """What each scorer gave, before its weight."""
        parts: Mapping[str, float] = self.said["parts"]
        return parts

    @property
    def solved(self) -> bool:
        return bool(self.said["solved"])

    @property
    def end(self) -> str:
        return str(self.said["end"])

    @property
    def turns(self) -> int:
        return int(self.said["turns"])

    @property
    def generated_tokens(self) -> int:
        return int(self.said["generated_tokens"])

    @property
    def submission(self) -> str:
        return str(self.said["submission"])


class Group(Sequence[Member]):
    """The attempts at one task."""

    def __init__(self, question: Mapping[str, Any]):
        self.question = question
        self.task = str(question["task"])
        self.number = int(question["group"])
        self.members = [Member(member) for member in question["members"]]

    @overload
    def __getitem__(self, index: int) -> Member: ...
    @overload
    def __getitem__(self, index: slice) -> list[Member]: ...
    def __getitem__(self, index: int | slice) -> Member | list[Member]:
        return self.members[index]

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __repr__(self) -> str:
        return f"<group {self.number} of {self.task}, {len(self)} members>"


def numbers(result: Any, group: Group, what: str) -> list[float]:
    values = list(result)
    if len(values) != len(group):
        raise ValueError(f"{what} must return one value for each of the {len(group)} members, got {len(values)}")
    return values


class Advantage(KeptFunction):
    kind = "advantage"

    def arguments(self, question: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (Group(question),), {}

    def answer(self, result: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        values = [float(value) for value in numbers(result, arguments[0], "an advantage")]
        if not all(map(math.isfinite, values)):
            raise ValueError(f"an advantage must return finite numbers, got {values}")
        return {"advantages": values}


class Filter(KeptFunction):
    kind = "filter"

    def arguments(self, question: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (Group(question),), {}

    def answer(self, result: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Of one truth for the group, or one for each member."""
        if isinstance(result, bool):
            return {"keep": [result] * len(arguments[0])}
        return {"keep": [bool(value) for value in numbers(result, arguments[0], "a filter")]}


def group_keys(advantage: Advantage | None, filter: Filter | None) -> dict[str, Any]:
    """The config keys with which a run asks them: one program for both."""
    asked = [one for one in (filter, advantage) if one is not None]
    if not asked:
        return {}
    words = [word for one in asked for word in one.command[-2:]]
    return {"learner.group_command": asked[0].command[:-2] + words,
            "learner.group_slots": max(one.slots for one in asked)}


@overload
def advantage(function: Callable[[Group], Any]) -> Advantage: ...
@overload
def advantage(*, slots: int = ...) -> Callable[[Callable[[Group], Any]], Advantage]: ...
def advantage(function: Callable[[Group], Any] | None = None, *, slots: int = 4) -> Any:
    """Makes a function of a group say the advantage of each member, in place of the objective's comparison."""
    if function is None:
        return lambda inner: Advantage(inner, slots)
    return Advantage(function, slots)


@overload
def filter(function: Callable[[Group], Any]) -> Filter: ...
@overload
def filter(*, slots: int = ...) -> Callable[[Callable[[Group], Any]], Filter]: ...
def filter(function: Callable[[Group], Any] | None = None, *, slots: int = 4) -> Any:
    """Makes a function of a group say which members are trained on: True or False for all, or one for each."""
    if function is None:
        return lambda inner: Filter(inner, slots)
    return Filter(function, slots)
