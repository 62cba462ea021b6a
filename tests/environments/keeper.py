"""verifiers: several turns with a tool. The keeper knows a number; who asks for it and says it is paid."""
import verifiers.v1 as vf


class KeeperToolset(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "keeper"

    @vf.tool
    def number(self) -> str:
        """The number that is kept."""
        return "417"


class KeeperTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class KeeperTask(vf.Task[vf.TaskData, vf.State, KeeperTaskConfig]):
    @classmethod
    def toolsets(cls, config: KeeperTaskConfig) -> list[vf.Toolset]:
        return [KeeperToolset(config.tools)]

    @vf.reward(weight=1.0)
    async def said(self, trace: vf.Trace) -> float:
        return float("417" in trace.last_reply)

    @vf.reward(weight=0.5)
    async def asked(self, trace: vf.Trace) -> float:
        return float(bool(trace.tool_messages))


class KeeperConfig(vf.TasksetConfig):
    num_tasks: int = 10
    task: KeeperTaskConfig = KeeperTaskConfig()


class KeeperTaskset(vf.Taskset[KeeperTask, KeeperConfig]):
    def load(self):
        for i in range(self.config.num_tasks):
            yield KeeperTask(vf.TaskData(idx=i, prompt=f"Ask the keeper for the number and say it. ({i})"), self.config.task)


__all__ = ["KeeperTaskset"]

if __name__ == "__main__":
    KeeperToolset.run()
