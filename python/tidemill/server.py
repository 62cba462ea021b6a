"""serve(): a model directory behind the OpenAI and Anthropic APIs, for as long as a block lasts. Client: asks one that
is served, by serve(), `tidemill serve` or the gateway of a run, and tells what its answers were worth."""
from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .program import last_lines, program, TidemillError

URL = re.compile(r"http://[\w.:\[\]-]+")


class Client:
    """`url` is the server's address; OpenAI's clients want `url + "/v1"`. What a `session` says belongs together: its
    answers are one conversation with a tree of turns (docs/live.md)."""

    def __init__(self, url: str, key: str | None = None, session: str | None = None):
        self.url = url.rstrip("/")
        self.session = session
        self._headers = {"content-type": "application/json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"

    def post(self, path: str, body: dict[str, Any], timeout_s: float = 600) -> dict[str, Any]:
        """The answer of a route ("/v1/completions") as its JSON. TidemillError has the server's words and status."""
        where = self.url + (f"/s/{urllib.parse.quote(self.session, safe='')}" if self.session else "") + path
        request = urllib.request.Request(where, json.dumps(body).encode(), self._headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as reply:
                said: dict[str, Any] = json.load(reply)
        except urllib.error.HTTPError as error:
            raise TidemillError(error.read().decode(errors="replace"), error.code) from None
        return said

    def chat(self, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """One answer of /v1/chat/completions, as its JSON. Any name of a model is the one that is served."""
        return self.post("/v1/chat/completions", {"model": "policy", "messages": messages, **fields})

    def feedback(self, answer: Mapping[str, Any] | str | None = None, **fields: Any) -> dict[str, Any]:
        """How good an answer was (what chat() returned, or its id) or, without one, the session: one of score=0.5,
        thumb="up", exit_code=0, tests={"passed": 3, "total": 4}; also text="..", by="ann", end=True. The server must
        record sessions (live.on)."""
        if answer is not None:
            fields["id"] = answer if isinstance(answer, str) else answer["id"]
        elif "session" not in fields and self.session is None:
            raise ValueError("feedback needs an answer, or a session: Client(url, session=..) or feedback(session=..)")
        return self.post("/v1/feedback", fields)

    def __repr__(self) -> str:
        return f"<tidemill client of {self.url}{', session ' + self.session if self.session else ''}>"


@contextmanager
def serve(model: str, *words: str, timeout_s: float = 60) -> Iterator[Client]:
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
        yield Client(address[0])
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
