"""Agents made of a Python framework and one tool, `bash`. Usage: python_agents.py FRAMEWORK MODEL TASK; URL is set."""
import os
import subprocess
import sys

URL = os.environ["URL"]


def run(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60).stdout


def openai_agents(model, task):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI
    set_tracing_disabled(True)

    @function_tool
    def bash(command: str) -> str:
        """Runs a command."""
        return run(command)

    agent = Agent(name="coder", tools=[bash],
                  model=OpenAIChatCompletionsModel(model, AsyncOpenAI(base_url=URL, api_key="any")))
    return Runner.run_sync(agent, task).final_output


def smolagents(model, task):
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool

    @tool
    def bash(command: str) -> str:
        """Runs a command.

        Args:
            command: the command
        """
        return run(command)

    agent = ToolCallingAgent(tools=[bash], model=OpenAIServerModel(model, api_base=URL, api_key="any"), max_steps=2)
    return str(agent.run(task))


def langgraph(model, task):
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    def bash(command: str) -> str:
        """Runs a command."""
        return run(command)

    agent = create_react_agent(ChatOpenAI(model=model, base_url=URL, api_key="any"), [bash])
    return agent.invoke({"messages": [("user", task)]})["messages"][-1].content


def pydantic_ai(model, task):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    agent = Agent(OpenAIChatModel(model, provider=OpenAIProvider(base_url=URL, api_key="any")))

    @agent.tool_plain
    def bash(command: str) -> str:
        """Runs a command."""
        return run(command)

    return agent.run_sync(task).output


if __name__ == "__main__":
    framework, name, words = sys.argv[1:]
    print(globals()[framework](name, words))
