"""Tidemill from Python: start runs and follow them, read their episodes, score them with functions of yours, serve.

Everything is done by the program `tidemill`, which this package starts; docs/python.md is the guide.

    program.py  where the program is, and asking it
    config.py   a config from Python values
    run.py      a run: start, follow, stop, resume
    records.py  what a run left: episodes and trajectories as rows
    tasks.py    a task file from any iterable
    scorer.py   @scorer: a function as a reward; worker.py keeps it running
    server.py   serve(): a model behind the OpenAI and Anthropic APIs
"""
from .program import TidemillError, program
from .records import rows_to_dataset, rows_to_pandas
from .run import Run, runs
from .scorer import Episode, Score, scorer
from .server import Server, serve
from .tasks import write_tasks

__all__ = ["Episode", "Run", "Score", "Server", "TidemillError", "program", "rows_to_dataset", "rows_to_pandas",
           "runs", "scorer", "serve", "write_tasks"]
