"""A function of yours that the program keeps running: @scorer, @tool, @advantage and @filter are of this kind."""
from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class KeptFunction(ABC):
    """A function with the command that keeps it running. Called here, it is the function itself."""

    kind: str  # as its decorator is called

    def __init__(self, function: Callable[..., Any], slots: int):
        if slots < 1:
            raise ValueError(f"slots must be at least 1, got {slots}")
        self.function = function
        self.slots = slots
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<tidemill {self.kind} {self.__name__}>"

    @property
    def command(self) -> list[str]:
        try:
            file = inspect.getsourcefile(self.function)
        except TypeError:
            file = None
        if file is None or not Path(file).is_file():
            raise ValueError(f"the {self.kind} {self.__name__} is not in a file, so no other process can import it; "
                             f"write it to one (in a notebook: %%writefile {self.kind}s.py, then import it)")
        return [sys.executable, "-m", "tidemill.worker", str(Path(file).resolve()), self.__name__]

    @abstractmethod
    def arguments(self, question: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the function is called with."""

    @abstractmethod
    def answer(self, result: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """What the program wants to hear of what it returned. TypeError or ValueError: it is no such thing."""

    def refusal(self, error: Exception) -> dict[str, Any] | None:
        """An answer where the exception is one; None: it is a failure of the function."""
        return None
