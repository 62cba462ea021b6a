"""Tidemill's side of the socket, for tests: starts ranks and tells them what to do."""

import os
import socket
import subprocess
import sys
import tempfile

import numpy

from tidemill_fsdp.wire import HEADER, Message, decode, encode

HELLO = {
    "precision": "float32", "recompute": False, "reference": False, "value_head": False, "beta1": 0.9, "beta2": 0.95,
    "eps": 1e-8, "weight_decay": 0.0,
}  # fmt: skip
PLAIN = {
    "ratio": "token", "surrogate": "reinforce", "correction": "none", "kl": "none", "aggregate": "token_mean",
    "proximal": "current", "clip_low": 0.2, "clip_high": 0.2, "cap": 2.0, "low": 0.5, "high": 5.0, "length": 256,
    "kl_coefficient": 0.0, "entropy_coefficient": 0.0, "value_coefficient": 0.5,
}  # fmt: skip


class Group:
    def __init__(self, ranks: int, **hello):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(300)
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m",
                 "tidemill_fsdp", "--socket", path]  # fmt: skip
        self.process = subprocess.Popen(words, env=os.environ | {"OMP_NUM_THREADS": "1"})
        self.link, _ = listener.accept()
        listener.close()
        self.ranks = ranks
        self.about = self.ask(Message(HELLO | hello))

    def ask(self, message: Message) -> Message:
        self.link.sendall(encode(message))
        answer = Message({"progress": 0})
        while "progress" in answer.words:
            words, arrays = HEADER.unpack(self._exactly(HEADER.size))
            answer = decode(self._exactly(words), self._exactly(arrays))
        if "refused" in answer.words:
            raise RuntimeError(answer.words["refused"])
        return answer

    def tell(self, verb: str, arrays: dict | None = None, **words) -> Message:
        return self.ask(Message({"verb": verb} | words, arrays or {}))

    def close(self) -> int:
        self.link.sendall(encode(Message({"verb": "bye"})))
        self.link.close()
        status = self.process.wait(60)
        self.folder.cleanup()
        return status

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.link.recv(size - len(data))
            if not piece:
                raise EOFError("the ranks are gone")
            data += piece
        return data


def batch(rows: list[list[int]], ranks: int, **by_token) -> tuple[list[dict], dict]:
    """Whole rows, every token but the first trained, dealt out to the ranks; a part for each row."""
    parts = [{"rank": i % ranks, "rows": [len(row)], "temperatures": [1.0]} for i, row in enumerate(rows)]
    trained = sum(len(row) - 1 for row in rows)
    arrays = {
        "ids": numpy.concatenate([numpy.array(row, numpy.int32) for row in rows]),
        "mask": numpy.concatenate([numpy.array([0] + [1] * (len(row) - 1), numpy.int32) for row in rows]),
        "behaviour": numpy.zeros(trained, numpy.float32),
        "advantages": numpy.ones(trained, numpy.float32),
    }
    return parts, arrays | by_token


def update(group: Group, rows: list[list[int]], rate: float, **choices) -> Message:
    parts, arrays = batch(rows, group.ranks)
    totals = {"tokens": sum(len(row) - 1 for row in rows), "sequences": len(rows)}
    return group.tell("update", arrays, parts=parts, objective=PLAIN | choices, totals=totals, rate=rate, clip=0.0)
