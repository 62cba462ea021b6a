"""A config from Python values: the keys of docs/config.md, as `--set` takes them, and lists of tables, as a file has
them."""
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .function import KeptFunction


def toml_value(value: Any) -> str:
    """A value as TOML writes it. Functions that a run asks become their command."""
    if isinstance(value, KeptFunction):
        return toml_value(value.command)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, Path)):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    raise TypeError(f"a config value must be a number, a text, a list or a dict, got {type(value).__name__}")


def flatten(keys: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"run": {"steps": 3}} and {"run.steps": 3} are the same. The tables of weights stay whole."""
    flat: dict[str, Any] = {}
    for name, value in keys.items():
        whole = before + name
        if isinstance(value, Mapping) and not whole.endswith("weights"):
            flat.update(flatten(value, whole + "."))
        else:
            flat[whole] = value
    return flat


def are_tables(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(one, Mapping) for one in value)


def set_words(keys: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in flatten(keys).items():
        if not are_tables(value):
            words += ["--set", f"{name}={toml_value(value)}"]
    return words


def tables_text(keys: Mapping[str, Any]) -> str:
    """The lists of tables among the keys ({"judge": [{..}]}), to be put behind what a file has."""
    text = ""
    for name, value in flatten(keys).items():
        if not are_tables(value):
            continue
        for table in value:
            text += f"\n[[{name}]]\n" + "".join(f"{key} = {toml_value(one)}\n" for key, one in table.items())
    return text
