#!/usr/bin/env python3
"""Usage: read_tfevents.py FILE...

Prints the events of TensorBoard files as one JSON array: wall_time, step, file_version, session, scalars. Checks every
checksum. Needs nothing but Python, and shares no code with what writes them.
"""
import json
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        while head := file.read(12):
            length, check = struct.unpack("<QI", head)
            assert check == masked(head[:8]), f"{path}: the checksum of a length is wrong"
            body = file.read(length)
            assert len(body) == length, f"{path}: ends inside a record"
            assert struct.unpack("<I", file.read(4))[0] == masked(body), f"{path}: the checksum of a record is wrong"
            yield body


def fields(data):
    """(number, value) of every field of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            assert kind == 2, f"wire type {kind}"
            size = varint()
        value, at = data[at:at + size], at + size
        yield key >> 3, struct.unpack("<d" if kind == 1 else "<f", value)[0] if kind in (1, 5) else value


def event(body):
    found = dict(fields(body))
    result = {"wall_time": found.get(1), "step": found.get(2, 0)}
    if 3 in found:
        result["file_version"] = found[3].decode()
    if 7 in found:
        result["session"] = dict(fields(found[7])).get(1, 0)
    scalars = {}
    for _, value in fields(found.get(5, b"")):
        one = dict(fields(value))
        scalars[one[1].decode()] = one[2]
    if scalars:
        result["scalars"] = scalars
    return result


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[0])
    print(json.dumps([event(body) for path in sys.argv[1:] for body in records(path)]))


if __name__ == "__main__":
    main()
