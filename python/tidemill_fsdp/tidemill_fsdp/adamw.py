"""AdamW with decoupled weight decay of every parameter, on whatever part of a parameter this rank holds."""

import math

import torch
from torch import Tensor


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of it."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class AdamW:
    def __init__(self, parameters: dict[str, Tensor], beta1: float, beta2: float, eps: float, weight_decay: float):
        self.parameters = parameters
        self.beta1, self.beta2, self.eps, self.weight_decay = beta1, beta2, eps, weight_decay
        self.steps = 0
        # float32 and sharded as the parameters are, so that a checkpoint can be read by another number of ranks.
        self.first = {name: torch.zeros_like(p, dtype=torch.float32) for name, p in parameters.items()}
        self.second = {name: torch.zeros_like(p, dtype=torch.float32) for name, p in parameters.items()}

    @torch.no_grad()
    def step(self, rate: float, gradient_scale: float) -> None:
        self.steps += 1
        correction = 1 - self.beta1**self.steps
        root = math.sqrt(1 - self.beta2**self.steps)
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            p, g = local(parameter), local(parameter.grad).to(torch.float32) * gradient_scale
            m, v = local(self.first[name]), local(self.second[name])
            m.mul_(self.beta1).add_(g, alpha=1 - self.beta1)
            v.mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
            p.mul_(1 - rate * self.weight_decay)
            p.addcdiv_(m, (v.sqrt() / root).add_(self.eps), value=-rate / correction)
