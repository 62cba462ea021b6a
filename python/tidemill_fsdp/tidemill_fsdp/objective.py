"""The loss of a minibatch from the log-probabilities of its tokens: docs/objectives.md, in torch.

b: behaviour, the policy that sampled; p: proximal, the learner's before the step; c: current; f: reference.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Objective:
    ratio: str  # token, sequence
    surrogate: str  # clip, cispo, reinforce
    correction: str  # none, decoupled, truncated, masked_token, masked_sequence
    kl: str  # none, k1, k2, k3
    aggregate: str  # sequence_mean, token_mean, fixed_length
    proximal: str  # behaviour, given, current, interpolate
    clip_low: float
    clip_high: float
    cap: float
    low: float
    high: float
    length: float
    kl_coefficient: float
    entropy_coefficient: float
    value_coefficient: float

    @property
    def needs_reference(self) -> bool:
        return self.kl != "none" and self.kl_coefficient != 0


@dataclass
class Tokens:
    """Trained tokens of whole sequences, [k] each. Gradients flow into current, entropy and values."""

    current: Tensor
    behaviour: Tensor
    proximal: Tensor
    advantages: Tensor
    sequence: Tensor  # which sequence a token belongs to, 0 ..
    sequences: int
    reference: Tensor | None = None
    entropy: Tensor | None = None
    values: Tensor | None = None
    value_targets: Tensor | None = None


@dataclass
class Totals:
    """Of everything that goes into one update, so that losses of its parts add up."""

    tokens: float
    sequences: float


SUMS = (
    "tokens", "ratio", "clipped", "weight", "weight_zero", "policy_kl", "reference_kl", "entropy", "value_error",
)  # fmt: skip


def interpolated(behaviour: Tensor, current: Tensor, lags: Tensor) -> Tensor:
    """Between the policy that sampled and the current one, which is a step ahead of the proximal."""
    return behaviour + lags / (lags + 1) * (current.detach() - behaviour)


def compute(objective: Objective, tokens: Tokens, totals: Totals) -> tuple[Tensor, Tensor]:
    """The loss, and the sums named by SUMS in float64."""
    counts = torch.zeros(tokens.sequences, dtype=tokens.current.dtype, device=tokens.current.device)
    counts.index_add_(0, tokens.sequence, torch.ones_like(tokens.current.detach()))
    counts = counts.clamp_min(1)

    def sequence_mean(values: Tensor) -> Tensor:
        sums = torch.zeros_like(counts).index_add(0, tokens.sequence, values)
        return (sums / counts)[tokens.sequence]

    difference = tokens.current - tokens.proximal
    log_ratio = difference if objective.ratio == "token" else sequence_mean(difference)
    surrogate, ratio, clipped = _surrogate(objective, tokens, log_ratio.exp())
    weight = _correction(objective, (tokens.proximal - tokens.behaviour).detach(), sequence_mean)
    terms = weight * surrogate
    zero = torch.zeros_like(ratio)
    reference_kl = zero
    if objective.needs_reference:
        kl = _kl(objective, tokens.current - tokens.reference)
        terms = terms + objective.kl_coefficient * kl
        reference_kl = kl.detach()
    if tokens.entropy is not None and objective.entropy_coefficient != 0:
        terms = terms - objective.entropy_coefficient * tokens.entropy
    value_error = zero
    if tokens.values is not None:
        error = tokens.values - tokens.value_targets
        terms = terms + objective.value_coefficient * 0.5 * error * error
        value_error = (error * error).detach()
    loss = _aggregate(objective, terms, counts[tokens.sequence], totals)
    moved = difference.detach()
    entropy = zero if tokens.entropy is None else tokens.entropy.detach()
    ones = torch.ones_like(ratio)
    rows = [ones, ratio, clipped, weight, (weight == 0).to(ratio), moved.exp() - moved - 1, reference_kl, entropy,
            value_error]  # fmt: skip
    return loss, torch.stack(rows).to(torch.float64).sum(1)


def _surrogate(objective: Objective, tokens: Tokens, ratio: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss by token, the ratio, and 1 where clipping took the gradient away."""
    fixed, advantages = ratio.detach(), tokens.advantages
    if objective.surrogate == "clip":
        plain = ratio * advantages
        limited = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high) * advantages
        return -torch.minimum(plain, limited), fixed, (limited < plain).detach().to(fixed)
    if objective.surrogate == "cispo":
        limit = 1 + objective.clip_high
        return -fixed.clamp_max(limit) * advantages * tokens.current, fixed, (fixed > limit).to(fixed)
    if objective.surrogate == "reinforce":
        return -advantages * tokens.current, fixed, torch.zeros_like(fixed)
    raise ValueError(f'unknown surrogate "{objective.surrogate}"')


def _correction(objective: Objective, log_rho: Tensor, sequence_mean) -> Tensor:
    def within(ratio: Tensor) -> Tensor:
        return ((ratio >= objective.low) & (ratio <= objective.high)).to(ratio)

    if objective.correction == "none":
        return torch.ones_like(log_rho)
    if objective.correction == "decoupled":
        return log_rho.exp()
    if objective.correction == "truncated":
        return log_rho.exp().clamp_max(objective.cap)
    if objective.correction == "masked_token":
        rho = log_rho.exp()
        return torch.where(within(rho) > 0, rho, torch.zeros_like(rho))
    if objective.correction == "masked_sequence":
        return within(sequence_mean(log_rho).exp())
    raise ValueError(f'unknown correction "{objective.correction}"')


def _kl(objective: Objective, difference: Tensor) -> Tensor:
    """An estimate by token; `difference` is c - f."""
    if objective.kl == "k1":
        return difference
    if objective.kl == "k2":
        return 0.5 * difference * difference
    if objective.kl == "k3":
        return (-difference).exp() + difference - 1
    raise ValueError(f'unknown estimate of the KL divergence "{objective.kl}"')


def _aggregate(objective: Objective, terms: Tensor, counts: Tensor, totals: Totals) -> Tensor:
    if objective.aggregate == "sequence_mean":
        return (terms / counts).sum() / totals.sequences
    if objective.aggregate == "token_mean":
        return terms.sum() / totals.tokens
    if objective.aggregate == "fixed_length":
        return terms.sum() / (totals.sequences * objective.length)
    raise ValueError(f'unknown aggregate "{objective.aggregate}"')
