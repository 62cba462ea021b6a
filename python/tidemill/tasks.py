"""A task file from any iterable."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .program import run_program


def write_tasks(tasks: Iterable[Mapping[str, Any]], path: str | os.PathLike[str], *, check: bool = True) -> Path:
    """Writes one task a line (docs/tasks.md lists the fields) and has the program check them. The file is complete or
    as it was. TidemillError names each mistake with its line and field."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        for task in tasks:
            file.write(json.dumps(dict(task), ensure_ascii=False) + "\n")
    try:
        if check:
            run_program("tasks", "check", str(part))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target
