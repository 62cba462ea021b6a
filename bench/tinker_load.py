#!/usr/bin/env python3
"""Usage: tinker_load.py PROGRAM [SECONDS]

How many promises a second `tidemill tinker` keeps with a tiny model: 8 clients with 64 samplers in flight, each of which
asks for one token, collects it and asks again. Then a client that never collects, until the server's memory has stood
still. Prints one JSON object; ends with status 1 below 1,000 a second or if memory grows. The load has one process; it
shares the machine with the server.
"""
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time

CLIENTS, SAMPLERS = 8, 64


class Connection:
    """HTTP/1.1 with keep-alive, no more than is needed here."""

    def __init__(self, port):
        self.port = port

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def post(self, path, body):
        text = json.dumps(body).encode()
        self.writer.write(b"POST /api/v1/%s HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                          % (path.encode(), len(text), text))
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        said = await self.reader.readexactly(length)
        return status, json.loads(said) if said else {}


def sample(sampler, number, tokens=1):
    return {"sampling_session_id": sampler, "seq_id": number, "num_samples": 1,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7, 8]}]},
            "sampling_params": {"max_tokens": tokens, "seed": number, "stop": []}}


async def new_sampler(connection):
    _, session = await connection.post("create_session", {"tags": [], "sdk_version": "0.24.1"})
    _, made = await connection.post("create_sampling_session", {
        "session_id": session["session_id"], "sampling_session_seq_id": 0, "base_model": "demo/demo"})
    return made["sampling_session_id"]


async def use(port, sampler, place, until, counts):
    connection = await Connection(port).open()
    number = place * 10**6
    while time.monotonic() < until:
        number += 1
        status, promise = await connection.post("asample", sample(sampler, number))
        if status == 429:
            await asyncio.sleep(0.05)
            continue
        while True:
            status, said = await connection.post("retrieve_future", {"request_id": promise["request_id"]})
            if status != 408:
                break
        if status != 200 or "sequences" not in said:
            sys.exit(f"tinker_load: {status} {said}")
        counts[place % CLIENTS] += 1


def memory_mb(pid):
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def never_collect(port, pid, count):
    """Memory after each tenth of the samples."""
    connection = await Connection(port).open()
    sampler = await new_sampler(connection)
    levels, refused, number = [], 0, 0
    while number < count:
        status, _ = await connection.post("asample", sample(sampler, number, tokens=16))
        if status == 429:
            refused += 1
            await asyncio.sleep(0.05)
            continue
        number += 1
        if number % (count // 10) == 0:
            levels.append(round(memory_mb(pid)))
    return levels, refused


async def load(port, pid, seconds):
    first = await Connection(port).open()
    samplers = [await new_sampler(first) for _ in range(CLIENTS)]
    counts = [0] * CLIENTS
    began = time.monotonic()
    await asyncio.gather(*[use(port, samplers[i % CLIENTS], i, began + seconds, counts) for i in range(SAMPLERS)])
    rate = sum(counts) / (time.monotonic() - began)
    levels, refused = await never_collect(port, pid, 20000)
    return {"promises_a_second": round(rate), "of_each_client": counts, "memory_mb_while_nobody_collects": levels,
            "refused_meanwhile": refused}


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.splitlines()[0])
    program, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) == 3 else 10
    with tempfile.TemporaryDirectory() as folder:
        for words in [["tasks", "model", "--family", "cfunc", "--width", "32", "--layers", "2", "--heads", "2",
                       "--feed-forward", "64", "--out", f"{folder}/shape"],
                      ["model", "new", "--config", f"{folder}/shape/config.json", "--tokenizer", f"{folder}/shape",
                       "--seed", "1", "--out", f"{folder}/demo"]]:
            subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL)
        server = subprocess.Popen([program, "--log-level", "warn", "tinker", f"demo/demo={folder}/demo", "--folder",
                                   f"{folder}/kept", "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            port = int(server.stdout.readline().rstrip("/\n").rsplit(":", 1)[1])
            figures = asyncio.run(load(port, server.pid, seconds))
        finally:
            server.kill()
            server.wait()
    print(json.dumps(figures))
    levels = figures["memory_mb_while_nobody_collects"]
    sys.exit(0 if figures["promises_a_second"] >= 1000 and levels[-1] <= levels[4] * 1.1 + 16 else 1)


if __name__ == "__main__":
    main()
