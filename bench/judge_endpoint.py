"""An OpenAI-compatible endpoint on loopback whose model is a Python function, for the benchmarks of judges."""
import http.server
import json
import re
import socketserver
import threading


class Endpoint:
    """Calls `judge(goal, text)` for the compact template, which returns a score from 0 to 1 of a submission or of a
    turn; that of a turn is good from 0.5 on."""

    def __init__(self, judge):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = body["messages"][-1]["content"]
                goal, turn, said = re.match(r"goal: (.*)\n(?:submission|(turn)): (.*)\n", text).groups()
                score = judge(goal, said)
                found = {"verdict": "good" if score >= 0.5 else "bad"} if turn else {"score": score}
                answer = json.dumps({**found, "reason": "scripted"})
                out = json.dumps({"choices": [{"message": {"role": "assistant", "content": answer}}],
                                  "usage": {"prompt_tokens": 1, "completion_tokens": 1}}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(out)))
                try:
                    self.end_headers()
                    self.wfile.write(out)
                except ConnectionError:  # the run has ended meanwhile
                    self.close_connection = True

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            request_queue_size = 512

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()


class Tasks:
    """What answers to the tasks of a file (family cfunc) should give."""

    def __init__(self, path):
        self.cases, self.known = {}, {}
        for line in open(path):
            task = json.loads(line)
            cases = task["grading"]["cases"]
            self.cases[self.goal(task["prompt"])] = [(*map(int, case["input"].split()), int(case["expected"]))
                                                     for case in cases]

    @staticmethod
    def goal(prompt):
        """The prompt as the compact template writes it."""
        return re.sub(r"[\x00-\x1f]+ ?", " ", prompt).strip()

    def right(self, goal, submission):
        asked = goal.strip(), submission
        if asked not in self.known:
            self.known[asked] = self.passes(*asked)
        return self.known[asked]

    def passes(self, goal, submission):
        try:
            return all(evaluate(submission, a, b) == expected for a, b, expected in self.cases[goal])
        except ValueError:
            return False


def evaluate(text, a, b):
    """The value of a C expression over a, b, whole numbers, + - * < > and ?:. ValueError: it is none."""
    tokens = re.findall(r"\d+|[ab()+*<>?:-]|\S", text)
    at = 0

    def take(wanted=None):
        nonlocal at
        if at >= len(tokens) or (wanted is not None and tokens[at] != wanted):
            raise ValueError(text)
        at += 1
        return tokens[at - 1]

    def peek():
        return tokens[at] if at < len(tokens) else ""

    def atom():
        token = take()
        if token == "(":
            value = choice()
            take(")")
            return value
        if token == "-":
            return -atom()
        if token in "ab":
            return a if token == "a" else b
        if not token.isdigit():
            raise ValueError(text)
        return int(token)

    def product():
        value = atom()
        while peek() == "*":
            take()
            value *= atom()
        return value

    def total():
        value = product()
        while peek() in ("+", "-") and peek():
            value = value + product() if take() == "+" else value - product()
        return value

    def compared():
        value = total()
        while peek() in ("<", ">") and peek():
            value = int(value < total()) if take() == "<" else int(value > total())
        return value

    def choice():
        value = compared()
        if peek() != "?":
            return value
        take()
        yes = choice()
        take(":")
        no = choice()
        return yes if value else no

    value = choice()
    if at != len(tokens):
        raise ValueError(text)
    return value
