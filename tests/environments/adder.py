"""OpenEnv: an environment whose actions are tools of the Model Context Protocol. A sum is asked for and paid."""
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation, State


class AdderEnvironment(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        mcp = FastMCP("adder")
        self._state = State(episode_id="", step_count=0)

        @mcp.tool
        def add(a: int, b: int) -> int:
            """The sum of two numbers."""
            return a + b

        super().__init__(mcp)

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = State(episode_id=episode_id or "", step_count=0)
        return Observation(done=False, reward=0.0, metadata={"text": f"Add 2 and {seed or 0}."})

    def step(self, action, timeout_s=None, **kwargs):
        seen = super().step(action, timeout_s=timeout_s, **kwargs)
        self._state.step_count += 1
        seen.reward = 1.0 if isinstance(seen, CallToolObservation) and seen.error is None else 0.0
        seen.done = True
        return seen

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation(done=True, reward=0.0)

    @property
    def state(self):
        return self._state


app = create_app(AdderEnvironment, CallToolAction, CallToolObservation, env_name="adder", max_concurrent_envs=16)
