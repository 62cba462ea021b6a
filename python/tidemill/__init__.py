"""Tidemill from Python: start runs and follow them, read their episodes, score them with functions of yours, serve.

Everything is done by the program `tidemill`, which this package starts; docs/python.md is the guide.

    program.py  where the program is, and asking it
    config.py   a config from Python values
    run.py      a run: start, follow, stop, resume
    records.py  what a run left: episodes and trajectories as rows
    tasks.py    a task file from any iterable
    scorer.py   @scorer: a function as a reward
    tool.py     @tool: a function as a tool of the agent
    group.py    @advantage, @filter: functions of a group of episodes
    function.py what these have in common; worker.py keeps them running
    server.py   serve(): a model behind the OpenAI and Anthropic APIs; Client: one that is served elsewhere
    track.py    feeds trackers of others; started by the program
"""
from .group import Group, Member, advantage, filter
from .program import TidemillError, program
from .records import rows_to_arrow, rows_to_dataset, rows_to_pandas
from .run import Run, runs
from .scorer import Episode, Score, scorer
from .server import Client, serve
from .tasks import write_tasks
from .tool import Files, Refused, tool

__all__ = ["Client", "Episode", "Files", "Group", "Member", "Refused", "Run", "Score", "TidemillError", "advantage",
           "filter", "program", "rows_to_arrow", "rows_to_dataset", "rows_to_pandas", "runs", "scorer", "serve", "tool",
           "write_tasks"]
