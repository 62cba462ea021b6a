"""A one-turn environment of verifiers: how many letters has a word?"""
import verifiers.v1 as vf


class LettersData(vf.TaskData):
    answer: str


class LettersTask(vf.Task[LettersData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(self.data.answer in trace.last_reply)

    @vf.reward(weight=0.1)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 20)


class LettersConfig(vf.TasksetConfig):
    num_tasks: int = 20


class LettersTaskset(vf.Taskset[LettersTask, LettersConfig]):
    def load(self):
        for i in range(self.config.num_tasks):
            word = "tide" * (i % 5 + 1)
            prompt = f"How many letters has {word}? Say the number."
            yield LettersTask(LettersData(idx=i, prompt=prompt, answer=str(len(word))), self.config.task)


__all__ = ["LettersTaskset"]
