"""What the ranks do when they are told: one method a command, carried out by all of them in the same order."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from tidemill_fsdp import objective
from tidemill_fsdp.adamw import AdamW, local
from tidemill_fsdp.files import Refused
from tidemill_fsdp.policy import Pack, Policy
from tidemill_fsdp.wire import Message

BY_TOKEN = ("behaviour", "proximal", "advantages", "reference", "value_targets", "lags")


@dataclass
class Part:
    """Rows that one rank computes at once."""

    index: int
    pack: Pack
    sequence: Tensor
    sequences: int
    by_token: dict[str, Tensor]


class Ranks:
    def __init__(self, hello: dict, beat: Callable[[], None]):
        self._beat = beat
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        mesh = init_device_mesh(kind, (self.size,))
        self.device = torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device("cpu")
        self.bfloat16 = hello["precision"] == "bfloat16" or (hello["precision"] == "auto" and kind == "cuda")
        folder, adapter = hello["model"], hello.get("adapter", "")
        self.policy = Policy(folder, adapter, mesh, self.bfloat16, hello["recompute"], trained=True)
        self.reference = None
        if hello["reference"]:
            self.reference = Policy(folder, adapter, mesh, self.bfloat16, recompute=False, trained=False)
        parameters = self.policy.parameters()
        self.value_head: dict[str, Tensor] = {}
        if hello["value_head"]:
            width = self.policy.inner.config.get_text_config().hidden_size
            for name, shape in (("value_head.weight", (1, width)), ("value_head.bias", (1,))):
                self.value_head[name] = torch.zeros(shape, device=self.device, requires_grad=True)
        self.optimizer = AdamW(
            parameters | self.value_head, hello["beta1"], hello["beta2"], hello["eps"], hello["weight_decay"]
        )
        self._before: list[tuple[Tensor, Tensor]] | None = None
        self._steps_before = 0

    def hello(self) -> Message:
        pids = self._gather((os.getpid(), socket.gethostname()))
        return Message({
            "ranks": self.size, "device": self.device.type, "bfloat16": self.bfloat16, "torch": torch.__version__,
            "parameters": self.policy.count, "pids": [pid for pid, _ in pids], "hosts": [host for _, host in pids],
        })  # fmt: skip

    def score(self, command: Message) -> Message:
        """Log-probabilities under the policy (and values, where it has a value head) or the reference."""
        which = self.reference if command.words["of"] == "reference" else self.policy
        if which is None:
            raise Refused("there is no reference policy")
        logprobs, values = [], []
        with torch.no_grad():
            for part in self._mine(command):
                scores = which.scores(part.pack)
                self._beat()
                if part.index < 0:
                    continue
                logprobs.append((part.index, _numbers(scores.logprobs)))
                if self.value_head:
                    values.append((part.index, _numbers(self._values(scores.hidden))))
        arrays = {"logprobs": self._in_order(logprobs)}
        if self.value_head:
            arrays["values"] = self._in_order(values)
        return Message({}, arrays)

    def update(self, command: Message) -> Message:
        """One step of AdamW on one minibatch. A loss or gradient that is no number: nothing is changed."""
        for parameter in self.optimizer.parameters.values():
            parameter.grad = None
        choices = objective.Objective(**command.words["objective"])
        totals = objective.Totals(**command.words["totals"])
        loss = torch.zeros((), dtype=torch.float64)
        sums = torch.zeros(len(objective.SUMS), dtype=torch.float64)
        logprobs = []
        for part in self._mine(command):
            scores = self.policy.scores(part.pack)
            if part.index < 0:  # the others have one more: all take part in what FSDP sums
                (scores.logprobs.sum() * 0).backward()
                self._beat()
                continue
            part_loss, part_sums = objective.compute(choices, self._tokens(choices, part, scores), totals)
            (part_loss * self.size).backward()  # FSDP divides by the ranks
            self._beat()
            loss += part_loss.detach().to("cpu", torch.float64)
            sums += part_sums.cpu()
            logprobs.append((part.index, _numbers(scores.logprobs)))
        loss, sums = self._sum(loss), self._sum(sums)
        norm = self._gradient_norm()
        words = {"loss": loss.item(), "grad_norm": norm, "sums": sums.tolist()}
        words["finite"] = bool(torch.isfinite(loss)) and bool(numpy.isfinite(norm))
        if words["finite"]:
            clip = command.words["clip"]
            self.optimizer.step(command.words["rate"], clip / norm if 0 < clip < norm else 1.0)
        else:
            words |= {"loss": str(words["loss"]), "grad_norm": str(norm), "sums": []}
        return Message(words, {"logprobs": self._in_order(logprobs)})

    def gradients(self, command: Message) -> Message:
        """Writes the gradients of the last update, for comparing."""
        from safetensors.torch import save_file

        written = {}
        for name, parameter in self.policy.parameters().items():
            gradient = parameter.grad
            if gradient is not None:
                written[name] = (gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient).cpu()
        written |= {name: leaf.grad.cpu() for name, leaf in self.value_head.items() if leaf.grad is not None}
        if self.rank == 0:
            save_file({name: tensor.contiguous() for name, tensor in written.items()}, command.words["file"])
        return Message({})

    def begin(self, _command: Message) -> Message:
        """Remembers what several updates change."""
        kept = [*self.optimizer.parameters.values(), *self.optimizer.first.values(), *self.optimizer.second.values()]
        self._before = [(local(tensor), local(tensor).detach().clone()) for tensor in kept]
        self._steps_before = self.optimizer.steps
        return Message({})

    def undo(self, _command: Message) -> Message:
        with torch.no_grad():
            for tensor, value in self._before or []:
                tensor.copy_(value)
        if self._before is not None:
            self.optimizer.steps = self._steps_before
        self._before = None
        return Message({})

    def end(self, _command: Message) -> Message:
        self._before = None
        return Message({})

    def publish(self, command: Message) -> Message:
        """A model directory (or an adapter's), and what it gives to the canary's tokens."""
        dtype = getattr(torch, command.words["dtype"])
        size, checksum = self.policy.write(command.words["folder"], dtype, command.words["merged"], self._beat)
        words = {"bytes": size, "checksum": checksum}
        return Message(words, self.score(command).arrays if "parts" in command.words else {})

    def checkpoint(self, command: Message) -> Message:
        folder = command.words["folder"]
        self.policy.write(folder, torch.float32, merged=False, beat=self._beat)
        dist.barrier()
        dcp.save(self._state(), checkpoint_id=folder)
        return Message({"optimizer_steps": self.optimizer.steps})

    def restore(self, command: Message) -> Message:
        folder = command.words["folder"]
        if not os.path.exists(os.path.join(folder, ".metadata")):
            raise Refused(f"{folder}: not a checkpoint of fsdp2 (.metadata is missing)")
        state = self._state()
        dcp.load(state, checkpoint_id=folder)
        self.optimizer.steps = command.words["optimizer_steps"]
        return Message({})

    # Parts

    def _mine(self, command: Message) -> list[Part]:
        """This rank's parts, as many as any rank has."""
        parts, counts = [], [0] * self.size
        at, tokens = 0, 0
        arrays = command.arrays
        for index, words in enumerate(command.words["parts"]):
            lengths = words["rows"]
            size = sum(lengths)
            mask = arrays["mask"][at : at + size] != 0
            trained = int(mask.sum())
            counts[words["rank"]] += 1
            if words["rank"] == self.rank:
                by_token = {n: arrays[n][tokens : tokens + trained] for n in BY_TOKEN if n in arrays}
                parts.append(self._part(index, arrays["ids"][at : at + size], mask, words, by_token))
            at, tokens = at + size, tokens + trained
        nothing = numpy.zeros(2, numpy.int32)
        while len(parts) < max(counts):
            parts.append(self._part(-1, nothing, numpy.array([False, True]), {"rows": [2], "temperatures": [1.0]}, {}))
        return parts

    def _part(self, index: int, ids, mask, words: dict, by_token: dict) -> Part:
        lengths = numpy.array(words["rows"])
        row_of = numpy.repeat(numpy.arange(len(lengths)), lengths)
        starts = numpy.concatenate([[0], numpy.cumsum(lengths)[:-1]])
        positions = numpy.arange(len(ids)) - starts[row_of]
        wanted = numpy.flatnonzero(mask)

        def tensor(values, dtype=torch.long) -> Tensor:
            return torch.tensor(numpy.asarray(values), dtype=dtype, device=self.device)

        temperatures = numpy.array(words["temperatures"], numpy.float32)[row_of[wanted]]
        pack = Pack(
            tensor(ids), tensor(positions), tensor(wanted - 1), tensor(ids[wanted]),
            tensor(temperatures, torch.float32),
        )  # fmt: skip
        return Part(
            index, pack, tensor(row_of[wanted]), len(lengths),
            {name: tensor(values, torch.float32) for name, values in by_token.items()},
        )  # fmt: skip

    def _tokens(self, choices: objective.Objective, part: Part, scores) -> objective.Tokens:
        given = part.by_token
        proximal = given["behaviour"]
        if choices.proximal == "given":
            proximal = given["proximal"]
        elif choices.proximal == "current":
            proximal = scores.logprobs.detach()
        elif choices.proximal == "interpolate":
            proximal = objective.interpolated(given["behaviour"], scores.logprobs, given["lags"])
        values = self._values(scores.hidden) if self.value_head else None
        return objective.Tokens(
            scores.logprobs, given["behaviour"], proximal, given["advantages"], part.sequence, part.sequences,
            given.get("reference"), scores.entropy, values, given.get("value_targets"),
        )  # fmt: skip

    def _values(self, hidden: Tensor) -> Tensor:
        weight, bias = self.value_head["value_head.weight"], self.value_head["value_head.bias"]
        return torch.nn.functional.linear(hidden, weight, bias)[:, 0]

    # Sums over ranks

    def _gradient_norm(self) -> float:
        """Of everything that is trained. The value head is whole on every rank."""
        for leaf in self.value_head.values():
            if leaf.grad is None:
                leaf.grad = torch.zeros_like(leaf)
            dist.all_reduce(leaf.grad)
            leaf.grad /= self.size  # the loss was multiplied by it
        squares = torch.zeros((), dtype=torch.float64)
        for parameter in self.policy.parameters().values():
            if parameter.grad is not None:
                squares += local(parameter.grad).to(torch.float64).pow(2).sum().cpu()
        squares = self._sum(squares)
        for leaf in self.value_head.values():
            squares += leaf.grad.to(torch.float64).pow(2).sum().cpu()
        return float(squares.sqrt())

    def _sum(self, value: Tensor) -> Tensor:
        dist.all_reduce(value)
        return value

    def _gather(self, value) -> list:
        gathered = [None] * self.size
        dist.all_gather_object(gathered, value)
        return gathered

    def _in_order(self, mine: list[tuple[int, numpy.ndarray]]) -> numpy.ndarray:
        """Everybody's numbers in the order of the parts."""
        all_parts = sorted((one for some in self._gather(mine) for one in some), key=lambda one: one[0])
        return numpy.concatenate([numbers for _, numbers in all_parts] or [numpy.zeros(0, numpy.float32)])

    def _state(self) -> dict:
        trained = self.optimizer.parameters
        return {"model": trained, "first": self.optimizer.first, "second": self.optimizer.second}


def _numbers(tensor: Tensor) -> numpy.ndarray:
    return tensor.detach().to("cpu", torch.float32).numpy()
