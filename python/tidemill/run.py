"""A run: start it, follow it, stop it, resume it, read what it left."""
from __future__ import annotations

import html
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .config import flatten, set_words, tables_text
from .group import Advantage, Filter, group_keys
from .program import ask, last_lines, program, TidemillError
from .records import export_rows
from .scorer import Scorer
from .tool import Tool

LOOK_EVERY_S = 0.2


class Run:
    """One run of `tidemill train`. `keys` are those of docs/config.md, nested or with dots; a list of dicts is a list of
    tables. Functions are those that @scorer, @tool, @advantage and @filter made:

        Run("run.toml", {"run.steps": 5}, name="first", reward=my_scorer, tools=[my_tool])
    """

    def __init__(self, config: str | os.PathLike[str] | None = None, keys: Mapping[str, Any] | None = None, *,
                 name: str | None = None, folder: str | os.PathLike[str] = "runs", reward: Scorer | None = None,
                 tools: Sequence[Tool] = (), advantage: Advantage | None = None, filter: Filter | None = None):
        self.folder = Path(folder)
        self.name = name or time.strftime("%Y%m%d-%H%M%S")
        self._config = config
        self._keys: dict[str, Any] = {**(reward.keys() if reward else {}), **group_keys(advantage, filter),
                                      **({"tools.command": [tool.table() for tool in tools]} if tools else {}),
                                      **(keys or {})}
        if flatten(self._keys).get("track.to"):
            self._keys = {"track.python": sys.executable, **self._keys}
        self._resumes = False
        self._process: subprocess.Popen[str] | None = None
        self._said: Any = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """A run that is there: runs/NAME, whoever started it."""
        path = Path(path)
        if not (path / "config.toml").is_file():
            raise FileNotFoundError(f"{path} is not a run: it has no config.toml")
        run = cls(name=path.name, folder=path.parent)
        run._resumes = True
        return run

    @property
    def path(self) -> Path:
        return self.folder / self.name

    # Starting and stopping.

    def start(self, keys: Mapping[str, Any] | None = None) -> Run:
        """Starts the program and returns at once. A run that is there goes on from its last checkpoint; `keys` change
        its config ({"run.steps": 10})."""
        if self.running:
            raise TidemillError(f"run {self.name} is running already", 2)
        words = [program(), "train", "--json"]
        if self._resumes:
            words += ["--resume", str(self.path)]
        else:
            words += self._config_words()
            words += set_words({**self._keys, "run.name": self.name, "run.folder": str(self.folder)})
        words += set_words(keys or {})
        package = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        weakref.finalize(self, self._said.close)
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=self._said, text=True, env={**os.environ, "PYTHONPATH": path})
        self._resumes = True
        return self

    def _config_words(self) -> list[str]:
        """The config file or, since lists of tables cannot be given as words, FOLDER/NAME.toml: they are behind what it
        has."""
        tables = tables_text(self._keys)
        if not tables:
            return [str(self._config)] if self._config else []
        text = Path(self._config).read_text(encoding="utf-8") if self._config else ""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path.with_name(self.name + ".toml")
        path.write_text(text + tables, encoding="utf-8")
        return [str(path)]

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, timeout_s: float = 120) -> None:
        """Saves and stops, as Ctrl-C does. It goes on with start()."""
        if self._process is None or not self.running:
            return
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout_s)

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Waits for the end and returns the summary. TidemillError with what the program said if it failed."""
        if self._process is None:
            return self.summary
        status = self._process.wait(timeout_s)
        if status not in (0, 130):
            raise TidemillError(self.log() or f"tidemill train ended with status {status}", status)
        return self.summary

    def log(self, lines: int = 8) -> str:
        """The last lines the program wrote to standard error, if it was started here."""
        if self._said is None:
            return ""
        self._said.flush()
        with open(f"/proc/self/fd/{self._said.fileno()}", encoding="utf-8", errors="replace") as file:
            return last_lines(file.read(), lines)

    def __enter__(self) -> Run:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Reading.

    def follow(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl from the first on, as they are written, until the run ends; with kinds ("step",
        "eval", "warning", ..; docs/config.md lists them) those alone."""
        path = self.path / "metrics.jsonl"
        place, ended = 0, False
        while not ended:
            ended = not self.running  # what is written before the end is still read
            if path.exists():
                with path.open("rb") as file:
                    file.seek(place)
                    for line in file:
                        if not line.endswith(b"\n"):
                            break
                        place += len(line)
                        event = json.loads(line)
                        if not kinds or event["kind"] in kinds:
                            yield event
            if not ended:
                time.sleep(LOOK_EVERY_S)

    def metrics(self, *kinds: str) -> list[dict[str, Any]]:
        """What metrics.jsonl holds now, of these kinds or of all."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.split("\n")[:-1]]
        return [line for line in lines if not kinds or line["kind"] in kinds]

    @property
    def summary(self) -> dict[str, Any]:
        """As `tidemill runs show` has it, of a running or a finished run."""
        said: dict[str, Any] = ask("runs", "--folder", str(self.folder), "show", self.name)
        return said

    def episodes(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """A row an episode: task, reward, submission, how it ended, without its sequences. `filters` are the options of
        `tidemill runs export`: solved=True, task="..", purpose="train", min_reward=0.5, limit=100."""
        of_sequence = ("branch", "branches", "turns", "messages", "calls", "prompt_ids", "completion_ids",
                       "completion_mask", "logprobs", "versions", "experts")
        for row in self.trajectories(**filters):
            if row["branch"] == 1:
                yield {key: value for key, value in row.items() if key not in of_sequence}

    def trajectories(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """A row a sequence with ids, masks, log-probabilities, versions and rewards (docs/store.md)."""
        words: list[str] = []
        for name, value in filters.items():
            if value is False or value is None:
                continue
            words.append("--" + name.replace("_", "-"))
            words += [] if value is True else [str(value)]
        return export_rows(self.folder, self.name, words)

    def __repr__(self) -> str:
        state = "running" if self.running else "there" if self.path.exists() else "not started"
        return f"<tidemill run {self.name}, {state}>"

    def _repr_html_(self) -> str:
        if not (self.path / "config.toml").exists():
            return html.escape(repr(self))
        summary = self.summary
        evals = summary.get("eval", {})
        rows = [("state", "running" if self.running else summary.get("status", "")),
                ("steps", summary.get("steps", 0)), ("episodes", summary.get("episodes", 0)),
                ("lost", summary.get("lost", 0)), ("stale", summary.get("stale", 0))]
        # What came first of an evaluation that was not finished is no pass rate.
        rows += [(f"pass rate {name}", f"{100 * evals[name]['pass_rate']:.1f} %"
                  if evals[name].get("complete", True) else "only a part was evaluated")
                 for name in ("before", "after") if evals.get(name, {}).get("pass_rate") is not None]
        cells = "".join(f"<tr><th>{html.escape(key)}</th><td>{html.escape(str(value))}</td></tr>"
                        for key, value in rows)
        return f"<table><caption>run {html.escape(self.name)}</caption>{cells}</table>"


def runs(folder: str | os.PathLike[str] = "runs") -> list[dict[str, Any]]:
    """The runs of a folder, as `tidemill runs list` has them: run, state, summary."""
    listed: list[dict[str, Any]] = ask("runs", "--folder", str(folder), "list")["runs"]
    return listed
