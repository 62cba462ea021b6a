"""The engine that vLLM's workers take weights with."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from tidemill_vllm.files import WeightFile, checked


@dataclass
class FileInitInfo(WeightTransferInitInfo):
    """Nothing: a file needs no connection."""


@dataclass
class FileUpdateInfo(WeightTransferUpdateInfo):
    """All tensors of the model, by their names in the checkpoint."""

    path: str
    bytes: int
    checksum: str


class FileWeightEngine(WeightTransferEngine[FileInitInfo, FileUpdateInfo]):
    init_info_cls = FileInitInfo
    update_info_cls = FileUpdateInfo

    def init_transfer_engine(self, init_info: FileInitInfo) -> None:
        pass

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: FileUpdateInfo) -> None:
        checked(WeightFile(update_info.path, update_info.bytes, update_info.checksum))
        self.model.load_weights(_tensors(update_info.path))

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        pass


def _tensors(path: str) -> Iterator[tuple[str, torch.Tensor]]:
    with safe_open(path, framework="pt", device="cpu") as file:
        for name in file.keys():
            yield name, file.get_tensor(name)
