"""The task as inspect-ai runs it: a ReAct agent with a shell in the folder of the project."""
import os

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.tool import bash


@task
def hello():
    return Task(dataset=[Sample(input=os.environ["TASK"])], solver=react(tools=[bash(timeout=60)]), sandbox="local",
                message_limit=20)
