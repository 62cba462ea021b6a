"""Tells trackers of others about a run: python3 -m tidemill.track RUN --to wandb --to mlflow. `tidemill train` starts it
beside a run that has [track]; on a run that is over it tells what is there.

    RUN/track.jsonl, config.toml -> points and config
    tidemill runs show, export   -> evaluations and sample transcripts, at the end

It has a process of its own, so a tracker that is slow or away delays nothing of the run. SIGTERM: the run is over.
"""
from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from .config import flatten
from .program import TidemillError
from .run import Run

LOOK_EVERY_S = 0.5
SYSTEM_EVERY_S = 10
TRANSCRIPTS = 20


class Tracker(Protocol):
    def point(self, at_ms: int, step: int, scalars: dict[str, float]) -> None: ...
    def table(self, name: str, columns: list[str], rows: list[list[Any]]) -> None: ...
    def finish(self, good: bool) -> None: ...


class Wandb:
    """W&B. Without WANDB_MODE and without a key it writes an offline folder below the run, for `wandb sync`."""

    def __init__(self, run: Run, project: str, config: dict[str, Any]):
        import wandb

        mode: Any = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
        self.wandb = wandb
        # The id is the run's: what a resumed run tells belongs to the same one.
        self.run = wandb.init(project=project, name=run.name, id=run.name, resume="allow", dir=str(run.path),
                              config=config, mode=mode, settings=wandb.Settings(console="off", silent=True))
        self.run.define_metric("learner_step", hidden=True)
        self.run.define_metric("*", step_metric="learner_step")

    def point(self, at_ms: int, step: int, scalars: dict[str, float]) -> None:
        self.run.log({**scalars, "learner_step": step})

    def table(self, name: str, columns: list[str], rows: list[list[Any]]) -> None:
        self.run.log({name: self.wandb.Table(columns=list[str | int](columns), data=rows)})

    def finish(self, good: bool) -> None:
        self.run.finish(exit_code=0 if good else 1)


class Mlflow:
    """MLflow. Without MLFLOW_TRACKING_URI it writes mlflow.db beside the run, for `mlflow ui`."""

    def __init__(self, run: Run, project: str, config: dict[str, Any]):
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        runs = run.path.resolve().parent
        self.metric = Metric
        self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{runs}/mlflow.db")
        found = self.client.get_experiment_by_name(project)
        experiment = found.experiment_id if found else self.client.create_experiment(
            project, artifact_location=None if os.environ.get("MLFLOW_TRACKING_URI") else str(runs / "mlartifacts"))
        mine = self.client.search_runs([experiment], f"tags.tidemill_run = '{run.name}'", max_results=1)
        self.id = mine[0].info.run_id if mine else self.client.create_run(
            experiment, run_name=run.name, tags={"tidemill_run": run.name}).info.run_id
        self.client.set_terminated(self.id, "RUNNING")
        if not mine:  # they cannot be changed later
            params = [Param(key, str(value)[:6000]) for key, value in config.items()]
            for first in range(0, len(params), 100):
                self.client.log_batch(self.id, params=params[first:first + 100])

    def point(self, at_ms: int, step: int, scalars: dict[str, float]) -> None:
        metrics = [self.metric(name, value, at_ms, step) for name, value in scalars.items()]
        for first in range(0, len(metrics), 1000):
            self.client.log_batch(self.id, metrics=metrics[first:first + 1000])

    def table(self, name: str, columns: list[str], rows: list[list[Any]]) -> None:
        self.client.log_dict(self.id, {"columns": columns, "data": rows}, f"{name}.json")

    def finish(self, good: bool) -> None:
        self.client.set_terminated(self.id, "FINISHED" if good else "FAILED")


KINDS: dict[str, type[Wandb] | type[Mlflow]] = {"wandb": Wandb, "mlflow": Mlflow}


class Points:
    """What track.jsonl says and track.told does not know of."""

    def __init__(self, run: Path):
        self.path = run / "track.jsonl"
        self.place = 0
        self.rest = b""
        told = run / "track.told"
        self.known = set(told.read_text(encoding="utf-8").split()) if told.exists() else set()
        self.told = told.open("a", encoding="utf-8")

    def take(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.place)
            data = self.rest + file.read()
            self.place = file.tell()
        *lines, self.rest = data.split(b"\n")
        for line in lines:
            point = json.loads(line)
            mark = f"{point['step']}:{point['at_ms']}"
            if mark in self.known:
                continue
            yield point
            self.known.add(mark)
            self.told.write(mark + "\n")
            self.told.flush()


def usage(pid: int) -> dict[str, float]:
    """Memory and CPU time of the program, for a machine that has /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return {}
    ticks = os.sysconf("SC_CLK_TCK")
    return {"system/memory_mb": int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20,
            "system/cpu_seconds": (int(fields[11]) + int(fields[12])) / ticks}


def tell_end(run: Run, trackers: list[Tracker]) -> bool:
    """Evaluations and transcripts. Whether the run did what it was to do."""
    summary = run.summary
    evaluations: dict[str, dict[str, Any]] = summary.get("eval", {})
    columns = sorted({key for one in evaluations.values() for key, value in one.items()
                      if isinstance(value, (int, float))})
    rows = [[name, *(one.get(key) for key in columns)] for name, one in evaluations.items()]
    transcripts = [[row["task"], row["member"], row["reward"], row["solved"], json.dumps(row["messages"])]
                   for row in run.trajectories(limit=TRANSCRIPTS)]
    for tracker in trackers:
        if rows:
            tracker.table("evaluations", ["evaluation", *columns], rows)
        if transcripts:
            tracker.table("transcripts", ["task", "member", "reward", "solved", "messages"], transcripts)
    return summary.get("status") in ("done", "interrupted")


def follow(run: Run, trackers: list[Tracker], parent: int, over: list[bool]) -> None:
    points = Points(run.path)
    step, next_look = 0, 0.0
    ended = False
    while not ended:
        ended = over[0] or os.getppid() != parent  # what was written before the end is still read
        for point in points.take():
            step = point["step"]
            for tracker in trackers:
                tracker.point(point["at_ms"], step, point["scalars"])
        if not ended and time.monotonic() >= next_look:
            next_look = time.monotonic() + SYSTEM_EVERY_S
            for tracker in trackers:
                tracker.point(int(1000 * time.time()), step, usage(parent))
        if not ended:
            time.sleep(LOOK_EVERY_S)


def main() -> None:
    words = argparse.ArgumentParser(prog="tidemill.track", description="Tells trackers of others about a run.")
    words.add_argument("run", type=Path, help="the run's folder")
    words.add_argument("--to", action="append", required=True, choices=sorted(KINDS))
    words.add_argument("--project", default="tidemill")
    words.add_argument("--follow", action="store_true", help="until SIGTERM, or until who started this is gone")
    asked = words.parse_args()
    parent = os.getppid()
    over = [not asked.follow]
    signal.signal(signal.SIGTERM, lambda *_: over.__setitem__(0, True))
    run = Run.open(asked.run)
    if not asked.follow and not (run.path / "track.jsonl").exists():
        sys.exit(f"{run.path} has no track.jsonl: the run had no [track]")
    with (run.path / "config.toml").open("rb") as file:
        config = flatten(tomllib.load(file))
    trackers: list[Tracker] = []
    failed = False
    for name in dict.fromkeys(asked.to):
        try:
            trackers.append(KINDS[name](run, asked.project, config))
        except Exception as error:  # one that is away does not keep the others from being told
            failed = True
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    if trackers:
        follow(run, trackers, parent, over)
        good = True
        try:
            good = tell_end(run, trackers)
        except TidemillError as error:  # the run's folder is gone, or it never began
            good = False
            print(f"{run.name}: {error}", file=sys.stderr, flush=True)
        for tracker in trackers:
            tracker.finish(good)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
