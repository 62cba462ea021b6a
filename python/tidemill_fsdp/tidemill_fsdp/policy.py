"""A model over all ranks: built without weights, sharded, and filled by each rank with its own part of the files."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from accelerate import init_empty_weights
from torch import Tensor
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from transformers import AutoConfig, AutoModelForCausalLM

from tidemill_fsdp.adamw import local
from tidemill_fsdp.files import ModelFiles, TensorWriter, disk_name, pieces_of, read_rows


@dataclass
class Pack:
    """Rows laid end to end: what the model runs on, and what is wanted of it."""

    ids: Tensor  # [n]
    positions: Tensor  # [n], from 0 in each row
    keep: Tensor  # [k]: the places that predict the wanted tokens
    targets: Tensor  # [k]
    temperatures: Tensor  # [k]


@dataclass
class Scores:
    logprobs: Tensor  # [k], float32
    entropy: Tensor
    hidden: Tensor  # [k, hidden], what the head reads


class Policy:
    def __init__(self, folder: str, adapter: str, mesh, bfloat16: bool, recompute: bool, trained: bool):
        self.device = torch.device(mesh.device_type)
        self.folder, self.adapter = folder, adapter
        config = AutoConfig.from_pretrained(folder)
        self.tied = bool(config.tie_word_embeddings)
        with init_empty_weights(include_buffers=False):
            self.model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
            self.model.tie_weights()
            self.inner = self.model
            if adapter:
                from peft import LoraConfig, get_peft_model

                lora = LoraConfig.from_pretrained(adapter)
                lora.inference_mode = False
                self.model = get_peft_model(self.inner, lora)
        if not trained:
            self.model.requires_grad_(False)
        if recompute and trained:
            self.inner.gradient_checkpointing_enable({"use_reentrant": False})
            if adapter:
                self.inner.enable_input_require_grads()
        self.model.train(recompute and trained)  # dropout is 0 in both; only then layers are computed again
        for module in self.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        self._hidden: Tensor | None = None
        self.inner.get_output_embeddings().register_forward_pre_hook(self._see_hidden)
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if bfloat16 else MixedPrecisionPolicy()
        layers = set(self.inner._no_split_modules or [])
        for module in list(self.model.modules()):
            if type(module).__name__ in layers:
                fully_shard(module, mesh=mesh, mp_policy=policy)
        fully_shard(self.model, mesh=mesh, mp_policy=policy)
        self._make()
        self.load(folder)
        if adapter:
            self.load(adapter)

    def parameters(self) -> dict[str, Tensor]:
        """Those that are trained, by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    @property
    def count(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def load(self, folder: str) -> None:
        """Parameters that `folder` is about: the adapter's, or the model's."""
        files = ModelFiles(folder)
        of_adapter = os.path.exists(os.path.join(folder, "adapter_config.json"))
        for name, parameter in self.model.named_parameters():
            if (".lora_" in name) != of_adapter:
                continue
            shape, offset = parameter.shape, (0,) * parameter.dim()
            if isinstance(parameter, DTensor):
                shape, offset = compute_local_shape_and_global_offset(
                    parameter.shape, parameter.device_mesh, parameter.placements
                )
            if not shape or shape[0] == 0:
                continue
            rows = read_rows(files, disk_name(name), parameter.shape, offset[0], offset[0] + shape[0])
            with torch.no_grad():
                local(parameter).copy_(rows)

    def scores(self, pack: Pack) -> Scores:
        out = self.model(
            input_ids=pack.ids[None], position_ids=pack.positions[None], use_cache=False, logits_to_keep=pack.keep
        )
        logits = out.logits[0].to(torch.float32) / pack.temperatures[:, None]
        logprobs = torch.log_softmax(logits, -1)
        entropy = -(logprobs.exp() * logprobs).sum(-1)
        hidden, self._hidden = self._hidden, None
        return Scores(logprobs.gather(1, pack.targets[:, None])[:, 0], entropy, hidden[0].to(torch.float32))

    def write(
        self, folder: str, dtype: torch.dtype, merged: bool, beat: Callable[[], None]
    ) -> tuple[int, str]:
        """A model directory, or without `merged` an adapter's, tensor by tensor; bytes and checksum of its tensors.

        Every rank takes part; rank 0 writes. No rank ever has more than one whole tensor, or three of an adapter.
        """
        first = dist.get_rank() == 0
        whole = merged or not self.adapter
        parameters = dict(self.model.named_parameters())
        wanted = [
            (name, p) for name, p in parameters.items()
            if (".lora_" in name) != whole and not (self.tied and name.endswith("lm_head.weight"))
        ]  # fmt: skip
        pieces = {name: list(pieces_of(disk_name(name), p.shape)) for name, p in wanted}
        writer = None
        if first:
            os.makedirs(folder, exist_ok=True)
            file = "model.safetensors" if whole else "adapter_model.safetensors"
            writer = TensorWriter(os.path.join(folder, file), [p for some in pieces.values() for p in some], dtype)
        for name, parameter in wanted:
            value = self._merged(name, parameter, parameters) if whole else _whole(parameter)
            if first:
                for piece in pieces[name]:
                    writer.add(piece.take(value))
            del value
            beat()
        if not first:
            return 0, ""
        checksum = writer.close()
        if whole:
            with open(os.path.join(self.folder, "config.json")) as file:
                config = json.load(file)
            config |= {"dtype": str(dtype).removeprefix("torch."), "torch_dtype": str(dtype).removeprefix("torch.")}
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(config, file, indent=2)
        else:
            shutil.copyfile(
                os.path.join(self.adapter, "adapter_config.json"), os.path.join(folder, "adapter_config.json")
            )
        return writer.bytes, checksum

    def _merged(self, name: str, parameter: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        value = _whole(parameter)
        if not name.endswith(".base_layer.weight"):
            return value
        module = name.removesuffix(".base_layer.weight")
        down, up = (_whole(parameters[f"{module}.lora_{part}.default.weight"]) for part in "AB")
        scale = self.model.get_submodule(module).scaling["default"]
        return value.to(torch.float32) + scale * (up.to(torch.float32) @ down.to(torch.float32))

    def _see_hidden(self, _module, arguments) -> None:
        self._hidden = arguments[0]

    def _make(self) -> None:
        """Memory for this rank's part; buffers keep what the model computed of its config."""
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        self.model.to_empty(device=self.device)
        self.inner.tie_weights()  # each got memory of its own
        for name, buffer in self.model.named_buffers():
            buffer.copy_(buffers[name])


def _whole(parameter: Tensor) -> Tensor:
    with torch.no_grad():
        return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter.detach()
