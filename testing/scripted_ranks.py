"""For tests: what learner.command starts, without torch. It computes nothing and fails on command.

  scripted_ranks.py SOCKET RANKS [FAULT]   FAULT: hang, die, garbage, refuse, short, nan

Ranks above 0 are processes that wait. Every token's log-probability is -0.5 - 0.01 * its id, and falls with no step.
"""
import json
import os
import socket
import struct
import subprocess
import sys
import time

HEADER = struct.Struct("<IQ")


def encode(words, arrays):
    names, body = {}, b""
    for name, values in arrays.items():
        names[name] = {"type": "f32", "count": len(values)}
        body += struct.pack("<%df" % len(values), *values)
    text = json.dumps({**words, "arrays": names}).encode()
    return HEADER.pack(len(text), len(body)) + text + body


def read(link, size):
    data = b""
    while len(data) < size:
        piece = link.recv(size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def command(link):
    words, arrays = HEADER.unpack(read(link, HEADER.size))
    text, body = json.loads(read(link, words)), read(link, arrays)
    numbers, at = {}, 0
    for name, shape in text.pop("arrays", {}).items():
        kind = "i" if shape["type"] == "i32" else "f"
        numbers[name] = struct.unpack_from("<%d%s" % (shape["count"], kind), body, at)
        at += 4 * shape["count"]
    return text, numbers


def scores(numbers):
    return [-0.5 - 0.01 * token for token, kept in zip(numbers["ids"], numbers["mask"]) if kept]


def answer(words, numbers, fault):
    verb = words.get("verb")
    if verb in ("score", "update"):
        logprobs = scores(numbers)
        if fault == "short":
            logprobs = logprobs[1:]
        reply = {}
        if verb == "update":
            finite = fault != "nan"
            sums = [len(logprobs), *[0.0] * 8]
            reply = {"loss": 0.25 if finite else "nan", "grad_norm": 2.0, "sums": sums, "finite": finite}
        return reply, {"logprobs": logprobs, "values": [0.5] * len(logprobs)}
    if verb == "publish":
        os.makedirs(words["folder"])
        with open(words["folder"] + "/model.safetensors", "w") as file:
            file.write("weights")
        return {"bytes": 7, "checksum": "0123456789abcdef"}, {"logprobs": scores(numbers) if numbers else []}
    if verb == "checkpoint":
        with open(words["folder"] + "/model.safetensors", "w") as file:
            file.write("weights")
        return {"optimizer_steps": 3}, {}
    return {}, {}


def main():
    path, ranks, fault = sys.argv[1], int(sys.argv[2]), (sys.argv + [""])[3]
    others = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in range(1, ranks)]
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(path)
    folder = os.path.dirname(path)
    asked = open(os.path.join(os.environ.get("SCRIPTED_LOG", folder), "asked"), "a")
    for rank in range(ranks):
        with open(os.path.join(folder, "rank-%d" % rank), "w") as file:
            file.write("%d\n" % (1 if rank else 2))
    words, _ = command(link)
    pids = [os.getpid()] + [other.pid for other in others]
    hello = {"ranks": ranks, "pids": pids, "hosts": [socket.gethostname()] * ranks, "device": "cpu"}
    if fault == "refuse":
        hello = {"refused": "no such model"}
    link.sendall(encode(hello, {}))
    while True:
        words, numbers = command(link)
        asked.write(words["verb"] + "\n")
        asked.flush()
        if words["verb"] == "bye":
            break
        if fault == "hang":
            time.sleep(600)
        if fault == "die":
            others[0].kill()
            time.sleep(600)
        if fault == "garbage":
            link.sendall(b"x" * 64)
            continue
        link.sendall(encode({"progress": 1}, {}))
        link.sendall(encode(*answer(words, numbers, fault)))
    for other in others:
        other.kill()


main()
