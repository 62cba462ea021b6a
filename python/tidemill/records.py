"""What a run left, as rows."""
from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .program import last_lines, program, TidemillError


def export_rows(folder: Path, name: str, words: list[str]) -> Iterator[dict[str, Any]]:
    """The lines of `tidemill runs export`, by way of a temporary file; one row at a time is in memory."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.jsonl"
        done = subprocess.run([program(), "runs", "--folder", str(folder), "export", name, "--out", str(path), *words],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise TidemillError(last_lines(done.stderr), done.returncode)
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def rows_to_pandas(rows: Iterator[dict[str, Any]]) -> Any:
    """A pandas.DataFrame (pip install tidemill[pandas])."""
    import pandas

    return pandas.DataFrame(list(rows))


def rows_to_arrow(rows: Iterator[dict[str, Any]]) -> Any:
    """A pyarrow.Table (pip install tidemill[arrow])."""
    import pyarrow

    return pyarrow.Table.from_pylist(list(rows))


def rows_to_dataset(rows: Iterator[dict[str, Any]]) -> Any:
    """A datasets.Dataset (pip install tidemill[datasets])."""
    import datasets

    return datasets.Dataset.from_list(list(rows))
