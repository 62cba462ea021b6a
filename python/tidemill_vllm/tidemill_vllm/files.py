"""Files of weights: read ahead and checked while the model generates. Needs no vLLM."""

import json
import os
import threading
from dataclasses import dataclass

import xxhash

PIECE_BYTES = 1 << 22


@dataclass(frozen=True)
class WeightFile:
    """A safetensors file as its publisher describes it."""

    path: str
    bytes: int
    checksum: str  # XXH3, 64 bits, hex


def check(file: WeightFile) -> None:
    """Reads the whole file. ValueError: it is not the one that was published."""
    size = os.path.getsize(file.path)
    if size != file.bytes:
        raise ValueError(f"{file.path}: has {size} bytes, expected {file.bytes}")
    digest = xxhash.xxh3_64()
    with open(file.path, "rb") as source:
        while piece := source.read(PIECE_BYTES):
            digest.update(piece)
    if digest.hexdigest() != file.checksum:
        raise ValueError(f"{file.path}: its checksum is {digest.hexdigest()}, expected {file.checksum}")


class Prefetch:
    """Checks one file on a thread, which also brings it into the page cache."""

    def __init__(self, file: WeightFile):
        self.file = file
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="tidemill-prefetch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            check(self.file)
        except Exception as error:
            self.failure = str(error) or repr(error)

    def state(self) -> str:
        """"reading", "ready", or what is wrong."""
        if self._thread.is_alive():
            return "reading"
        return self.failure or "ready"

    def wait(self) -> None:
        """ValueError: the file is not the one that was published."""
        self._thread.join()
        if self.failure:
            raise ValueError(self.failure)


_newest: Prefetch | None = None


def prefetch(file: WeightFile) -> str:
    """Begins to check `file`, or says how far that is. A file that failed is tried again when asked for again."""
    global _newest
    if _newest is None or _newest.file != file:
        _newest = Prefetch(file)
        return "reading"
    state = _newest.state()
    if state not in ("reading", "ready"):
        _newest = None
    return state


def checked(file: WeightFile) -> None:
    """Returns when the file is known to be right. ValueError: it is not."""
    global _newest
    ahead = _newest if _newest is not None and _newest.file == file else Prefetch(file)
    _newest = None
    ahead.wait()


class WorkerExtension:
    """What vLLM's workers can be asked for by /collective_rpc."""

    def tidemill_prefetch(self, file: str) -> str:
        return prefetch(WeightFile(**json.loads(file)))
