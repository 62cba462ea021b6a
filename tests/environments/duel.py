"""verifiers: two players answer the same question; the longer answer wins."""
import verifiers.v1 as vf


class DuelTask(vf.Task[vf.TaskData]):
    pass


class DuelTasksetConfig(vf.TasksetConfig):
    num_tasks: int = 10


class DuelTaskset(vf.Taskset[DuelTask, DuelTasksetConfig]):
    def load(self):
        for i in range(self.config.num_tasks):
            yield DuelTask(vf.TaskData(idx=i, prompt=f"Say something long. ({i})"), self.config.task)


class DuelConfig(vf.EnvConfig):
    first: vf.AgentConfig = vf.AgentConfig()
    second: vf.AgentConfig = vf.AgentConfig()


class DuelEnv(vf.Env[DuelConfig]):
    async def run(self, task, agents):
        await agents.first.run(task)
        await agents.second.run(task)

    async def finalize(self, task, episode):
        longest = max(len(trace.last_reply) for trace in episode.traces)
        for trace in episode.traces:
            trace.record_reward("longer", float(len(trace.last_reply) == longest))


__all__ = ["DuelTaskset", "DuelEnv"]
