"""Model directories: names of tensors on disk, reading the part of a tensor, writing tensor by tensor."""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import xxhash
from safetensors import safe_open
from torch import Tensor

TYPE_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16"}
EXPERTS = re.compile(r"(.*\.experts)\.(gate_up_proj|down_proj)$")
PEFT_PREFIX = "base_model.model."


class Refused(Exception):
    """A command that every rank refuses, with nothing changed."""


class ModelFiles:
    """The tensors of a model directory, or of an adapter's."""

    def __init__(self, folder: str):
        self._folder = folder
        self._file_of: dict[str, str] = {}
        self._open: dict[str, object] = {}
        index = os.path.join(folder, "model.safetensors.index.json")
        if os.path.exists(index):
            with open(index) as file:
                self._file_of = json.load(file)["weight_map"]
            return
        for name in ("model.safetensors", "adapter_model.safetensors"):
            if os.path.exists(os.path.join(folder, name)):
                self._file_of |= dict.fromkeys(self._file(name).keys(), name)
        if not self._file_of:
            raise Refused(f"{folder}: no model.safetensors and no adapter_model.safetensors")

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def rows(self, name: str, first: int, end: int) -> Tensor:
        """Rows [first, end) along the first dimension."""
        if name not in self._file_of:
            raise Refused(f'{self._folder}: has no tensor "{name}"')
        return self._file(self._file_of[name]).get_slice(name)[first:end]

    def _file(self, name: str):
        if name not in self._open:
            self._open[name] = safe_open(os.path.join(self._folder, name), framework="pt", device="cpu")
        return self._open[name]


def disk_name(name: str) -> str:
    """The name in a model directory of a parameter that PEFT may have wrapped."""
    if ".lora_" in name:
        return name.replace(".default.", ".")
    return name.removeprefix(PEFT_PREFIX).replace(".base_layer.", ".")


def read_rows(files: ModelFiles, name: str, shape: torch.Size, first: int, end: int) -> Tensor:
    """Rows of a parameter; experts, which lie apart on disk, are put together."""
    fused = EXPERTS.match(name)
    if fused is None or name in files:
        return files.rows(name, first, end)
    experts = []
    for expert in range(first, end):
        at = f"{fused[1]}.{expert}."
        if fused[2] == "down_proj":
            experts.append(files.rows(at + "down_proj.weight", 0, shape[1]))
        else:
            half = shape[1] // 2
            gate, up = (files.rows(at + part, 0, half) for part in ("gate_proj.weight", "up_proj.weight"))
            experts.append(torch.cat([gate, up]))
    return torch.stack(experts) if experts else torch.empty(0, *shape[1:])


@dataclass
class Piece:
    """A tensor on disk: a parameter, or what of it `take` gives."""

    name: str
    shape: list[int]
    take: Callable[[Tensor], Tensor] = lambda whole: whole


def pieces_of(name: str, shape: torch.Size) -> Iterator[Piece]:
    """What a parameter is on disk."""
    fused = EXPERTS.match(name)
    if fused is None:
        yield Piece(name, list(shape))
        return
    for expert in range(shape[0]):
        at = f"{fused[1]}.{expert}."
        if fused[2] == "down_proj":
            yield Piece(at + "down_proj.weight", list(shape[1:]), lambda whole, e=expert: whole[e])
            continue
        half = shape[1] // 2
        shapes = [half, shape[2]]
        yield Piece(at + "gate_proj.weight", shapes, lambda whole, e=expert, h=half: whole[e, :h])
        yield Piece(at + "up_proj.weight", shapes, lambda whole, e=expert, h=half: whole[e, h:])


class TensorWriter:
    """Writes a safetensors file tensor by tensor, in the order it was told their shapes; sums up its bytes."""

    def __init__(self, path: str, pieces: list[Piece], dtype: torch.dtype):
        self._dtype = dtype
        size, header, at = torch.empty(0, dtype=dtype).element_size(), {"__metadata__": {"format": "pt"}}, 0
        for piece in pieces:
            length = size * torch.Size(piece.shape).numel()
            header[piece.name] = {
                "dtype": TYPE_NAMES[dtype], "shape": piece.shape, "data_offsets": [at, at + length],
            }  # fmt: skip
            at += length
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.bytes = 8 + len(text) + at
        self._sum = xxhash.xxh3_64()
        self._file = open(path, "wb")
        self._write(len(text).to_bytes(8, "little") + text)

    def add(self, tensor: Tensor) -> None:
        value = tensor.detach().to("cpu", self._dtype).contiguous()
        self._write(value.view(torch.uint8).numpy().data if value.numel() else b"")

    def close(self) -> str:
        """The checksum: XXH3, 64 bits, hex."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._sum.hexdigest()

    def _write(self, data) -> None:
        self._file.write(data)
        self._sum.update(data)
