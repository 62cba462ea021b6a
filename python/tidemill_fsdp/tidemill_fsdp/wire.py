"""Messages between Tidemill and rank 0: a JSON object and arrays of numbers.

A frame is the length of the JSON (4 bytes, little endian), the length of the arrays (8 bytes), the JSON, the arrays.
The JSON names each array in "arrays": {"ids": {"type": "i32", "count": 17}, ..}, in the order of their bytes.
"""

import json
import socket
import struct
from dataclasses import dataclass, field

import numpy

TYPES = {"i32": numpy.dtype("<i4"), "f32": numpy.dtype("<f4")}
HEADER = struct.Struct("<IQ")
JSON_MAX = 1 << 28
ARRAYS_MAX = 1 << 36


class WireError(Exception):
    """The bytes are no message."""


@dataclass
class Message:
    words: dict
    arrays: dict[str, numpy.ndarray] = field(default_factory=dict)


def encode(message: Message) -> bytes:
    words, parts = dict(message.words), []
    words["arrays"] = {}
    for name, array in message.arrays.items():
        kind = "i32" if array.dtype.kind in "iu" else "f32"
        parts.append(numpy.ascontiguousarray(array, TYPES[kind]).tobytes())
        words["arrays"][name] = {"type": kind, "count": int(array.size)}
    text = json.dumps(words).encode()
    body = b"".join(parts)
    return HEADER.pack(len(text), len(body)) + text + body


def decode(text: bytes, body: bytes) -> Message:
    words = json.loads(text)
    arrays, at = {}, 0
    for name, shape in words.pop("arrays", {}).items():
        kind = TYPES[shape["type"]]
        size = kind.itemsize * shape["count"]
        if at + size > len(body):
            raise WireError(f'array "{name}" is longer than the message')
        arrays[name] = numpy.frombuffer(body, kind, shape["count"], at)
        at += size
    if at != len(body):
        raise WireError("the message is longer than its arrays")
    return Message(words, arrays)


class Link:
    """Rank 0's end of the socket."""

    def __init__(self, path: str):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)

    def read(self) -> Message | None:
        """The next command; None: Tidemill is gone."""
        header = self._exactly(HEADER.size)
        if header is None:
            return None
        words, arrays = HEADER.unpack(header)
        if words > JSON_MAX or arrays > ARRAYS_MAX:
            raise WireError(f"a message of {words} and {arrays} bytes")
        text, body = self._exactly(words), self._exactly(arrays)
        return None if text is None or body is None else decode(text, body)

    def write(self, message: Message) -> None:
        self._socket.sendall(encode(message))

    def _exactly(self, size: int) -> bytes | None:
        pieces = bytearray(size)
        view, at = memoryview(pieces), 0
        while at < size:
            try:
                count = self._socket.recv_into(view[at:], size - at)
            except ConnectionError:
                count = 0
            if count == 0:
                return None
            at += count
        return bytes(pieces)
