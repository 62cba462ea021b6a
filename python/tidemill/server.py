"""serve(): a model directory behind the OpenAI and Anthropic APIs, for as long as a block lasts."""
from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .program import last_lines, program, TidemillError

URL = re.compile(r"http://[\w.:\[\]-]+")


class Server:
    """`url` is the server's address; OpenAI's clients want `url + "/v1"`."""

    def __init__(self, url: str):
        self.url = url

    def chat(self, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """One answer of /v1/chat/completions, as its JSON. Any name of a model is the one that is served."""
        body = json.dumps({"model": "policy", "messages": messages, **fields}).encode()
        request = urllib.request.Request(self.url + "/v1/chat/completions", body,
                                         {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request) as reply:
                said: dict[str, Any] = json.load(reply)
        except urllib.error.HTTPError as error:
            raise TidemillError(error.read().decode(errors="replace"), error.code) from None
        return said

    def __repr__(self) -> str:
        return f"<tidemill server at {self.url}>"


@contextmanager
def serve(model: str, *words: str, timeout_s: float = 60) -> Iterator[Server]:
    """Starts `tidemill serve MODEL WORDS` on a free port, waits until it answers, and stops it at the end."""
    process = subprocess.Popen([program(), "serve", str(model), "--port", "0", *words], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    said: list[str] = []
    address: list[str] = []
    known = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            del said[:-200]
            if not address and (found := URL.search(line)):
                address.append(found.group(0).rstrip("/"))
                known.set()
        known.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        if not known.wait(timeout_s) or not address:
            raise TidemillError("the server did not start: " + last_lines("".join(said)), process.poll() or 1)
        yield Server(address[0])
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        if process.stdout is not None:
            process.stdout.close()
