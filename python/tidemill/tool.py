"""@tool: a Python function as a tool of the agent.

    @tidemill.tool
    def word_count(path: str, files: tidemill.Files) -> str:
        "Counts the words of a file."
        if path not in files:
            raise tidemill.Refused(f"there is no file {path}")
        return str(len(files[path].split()))

    tidemill.Run("run.toml", tools=[word_count]).start()

The model is told its name, its docstring and its parameters. The function runs outside the agent's box, in one
interpreter that the program keeps running; it may be async. What the model passes is data: check it as you would a
stranger's. `Refused` is the agent's mistake and an answer like any other. Any other exception is a failure of the tool:
the call is tried again, and then the agent is told that the tool is unavailable.
"""
from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, overload

from .function import KeptFunction


class Refused(Exception):
    """What the agent asked for does not work; the text is what it reads."""


class Files(dict[str, str]):
    """The agent's workspace as a tool sees it: path to text. What a tool changes here is changed there."""

    def __init__(self, files: Mapping[str, str] | None = None):
        super().__init__(files or {})
        self.before = dict(self)


TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def schema_of(annotation: Any, where: str) -> dict[str, Any]:
    """The JSON schema of a parameter's annotation."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        kept = [one for one in inner if one is not type(None)]
        if len(kept) == 1:
            return schema_of(kept[0], where)
    if origin is typing.Literal and all(isinstance(one, str) for one in inner):
        return {"type": "string", "enum": list(inner)}
    if origin is list and inner:
        return {"type": "array", "items": schema_of(inner[0], where)}
    plain = origin or annotation
    if plain in TYPES:
        return {"type": TYPES[plain]}
    raise TypeError(f"{where} must be str, int, float, bool, list, dict or a Literal of strings, got {annotation!r}")


class Tool(KeptFunction):
    kind = "tool"

    def __init__(self, function: Callable[..., Any], slots: int, timeout_s: float, background: str):
        super().__init__(function, slots)
        self.timeout_s = timeout_s
        self.background = background
        hints = typing.get_type_hints(function)
        properties: dict[str, Any] = {}
        required: list[str] = []
        self.files_as: str | None = None  # the name of the parameter that is the workspace
        for name, parameter in inspect.signature(function).parameters.items():
            where = f"parameter {name} of the tool {self.__name__}"
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"{where} must be an ordinary one")
            if hints.get(name) is Files:
                self.files_as = name
                continue
            if name not in hints:
                raise TypeError(f"{where} needs a type, for the model is told it")
            properties[name] = schema_of(hints[name], where)
            if parameter.default is parameter.empty:
                required.append(name)
        self.schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            self.schema["required"] = required

    def table(self) -> dict[str, Any]:
        """Its [[tools.command]] table."""
        return {"name": self.__name__, "description": inspect.getdoc(self.function) or "", "command": self.command,
                "stays": True, "parameters": json.dumps(self.schema), "slots": self.slots,
                "wall_ms": int(1000 * self.timeout_s), "changes": self.files_as is not None,
                "background": self.background}

    def arguments(self, question: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        named = dict(question["arguments"])
        if self.files_as is not None:
            named[self.files_as] = Files(question["files"])
        return (), named

    def answer(self, result: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(result, str):
            raise TypeError(f"a tool must return what the model reads, a str, got {result!r}")
        said: dict[str, Any] = {"text": result}
        if self.files_as is not None:
            files = named[self.files_as]
            changed: dict[str, str | None] = {path: text for path, text in files.items()
                                              if files.before.get(path) != text}
            for path, text in changed.items():
                if not isinstance(path, str) or not isinstance(text, str):
                    raise TypeError(f"files must be texts by path, got {text!r} for {path!r}")
            changed.update({path: None for path in files.before if path not in files})
            if changed:
                said["files"] = changed
        return said

    def refusal(self, error: Exception) -> dict[str, Any] | None:
        return {"text": str(error), "failed": True} if isinstance(error, Refused) else None


@overload
def tool(function: Callable[..., Any]) -> Tool: ...
@overload
def tool(*, slots: int = ..., timeout_s: float = ..., background: str = ...) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, *, slots: int = 2, timeout_s: float = 10,
         background: str = "never") -> Any:
    """Makes a function a tool. `slots` calls are open at once, each for `timeout_s` at most; `background` says whether
    a call may go on while the agent does ("never", "allowed", "always")."""
    if function is None:
        return lambda inner: Tool(inner, slots, timeout_s, background)
    return Tool(function, slots, timeout_s, background)
