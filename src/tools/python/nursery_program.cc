#include "tools/python/nursery_program.h"

namespace tidemill {

// Stays small and plain: it is read by whoever wants to know what an answer can reach.
//
// The parent never runs an answer. It forks before it reads the inputs, hands them to the child one
// at a time and reads its answers, each with a bound on bytes and time. The child keeps two pipes
// to its parent and nothing else: standard streams are /dev/null, files cannot be written, no
// process can be started, signalled or looked into, and what was expected never comes here.
const char kNurseryProgram[] = R"py(
import sys, os, io, gc, time, select, signal, resource, builtins, json, struct, ctypes
import math, cmath, re, string, random, itertools, functools, operator, collections, heapq, bisect
import copy, datetime, decimal, fractions, statistics, typing, enum, dataclasses, textwrap, array

HEAD, ANSWER_MAX = 80, 65536
libc = ctypes.CDLL(None, use_errno=True)
filter_bytes = bytes.fromhex(sys.argv[1])
filter_code = ctypes.create_string_buffer(filter_bytes, len(filter_bytes))


class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]


program = Filter(len(filter_bytes) // 8, ctypes.addressof(filter_code))


def canonical(x, depth=0):
    """One text for all values that are equal, as Python's == has it, for plain data."""
    if depth > 200:
        raise RecursionError("the value is nested too deeply")
    if x is None:
        return "N"
    if isinstance(x, int):
        return "i" + int.__repr__(x if type(x) is int else int(x))
    if isinstance(x, (decimal.Decimal, fractions.Fraction)) and float(x) == x:
        x = float(x)
    if isinstance(x, float):
        if x == x and abs(x) != math.inf and x == int(x):
            return "i" + str(int(x))
        return "f" + struct.pack(">d", x).hex()
    if isinstance(x, complex):
        if x.imag == 0:
            return canonical(x.real)
        return "c" + canonical(x.real) + canonical(x.imag)
    if isinstance(x, str):
        return json.dumps(str(x))
    if isinstance(x, (bytes, bytearray)):
        return "b" + bytes(x).hex()
    if isinstance(x, list):
        return "[" + ",".join(canonical(y, depth + 1) for y in x) + "]"
    if isinstance(x, tuple):
        return "(" + ",".join(canonical(y, depth + 1) for y in x) + ")"
    if isinstance(x, (set, frozenset)):
        return "{" + ",".join(sorted(canonical(y, depth + 1) for y in x)) + "}"
    if isinstance(x, dict):
        items = sorted(canonical(k, depth + 1) + ":" + canonical(v, depth + 1) for k, v in x.items())
        return "d{" + ",".join(items) + "}"
    return "?" + type(x).__name__


def read_all(fd, count):
    parts = []
    while count > 0:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def describe(error):
    return (type(error).__name__ + ": " + str(error))[:300]


def say(fd, message):
    line = json.dumps(message).encode()
    if len(line) >= ANSWER_MAX:
        line = b'{"e": "the value is too large"}'
    write_all(fd, line + b"\n")


class Nowhere(io.TextIOBase):
    def write(self, text):
        return len(text)


def confine(cpu_ms, memory_mb):
    for what, limit in ((resource.RLIMIT_CPU, cpu_ms // 1000 + 2), (resource.RLIMIT_AS, memory_mb << 20),
                        (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 64)):
        resource.setrlimit(what, (limit, limit))
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        os._exit(97)


def answer(code, ask, tell, cpu_ms, memory_mb):
    confine(cpu_ms, memory_mb)
    gc.enable()
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), Nowhere(), Nowhere()
    sys.setrecursionlimit(2000)
    space = {"__name__": "answer", "__builtins__": builtins}
    try:
        exec(compile(code, "answer.py", "exec"), space)
    except BaseException as error:
        line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
        say(tell, {"e": describe(error), "line": line})
        os._exit(0)
    say(tell, {"loaded": 1})
    pending = b""
    while True:
        while b"\n" not in pending:
            part = os.read(ask, 65536)
            if not part:
                os._exit(0)
            pending += part
        text, pending = pending.split(b"\n", 1)
        try:
            value = eval(compile(json.loads(text), "test", "eval"), space)
            say(tell, {"v": canonical(value), "r": repr(value)[:300]})
        except BaseException as error:
            say(tell, {"e": describe(error)})


class Exam:
    def __init__(self, code, cpu_ms, wall_ms, memory_mb):
        ask, self.ask = os.pipe()
        self.hear, tell = os.pipe()
        self.cpu_ms, self.begin, self.until = cpu_ms, time.monotonic(), time.monotonic() + wall_ms / 1000
        self.pending, self.end, self.starved = b"", "ok", False
        self.pid = os.fork()
        if self.pid == 0:
            try:
                null = os.open("/dev/null", os.O_RDONLY)
                for fd, at in ((null, 0), (null, 1), (null, 2), (os.dup(ask), 3), (os.dup(tell), 4)):
                    os.dup2(fd, at) if fd != at else None
                os.closerange(5, 4096)
                answer(code, 3, 4, cpu_ms, memory_mb)
            except BaseException as error:
                say(4, {"e": "the harness: " + describe(error)})
            finally:
                os._exit(98)
        os.close(ask)
        os.close(tell)

    def cpu_used_ms(self):
        try:
            return time.clock_gettime((~self.pid << 3) | 2) * 1000
        except OSError:
            return 0.0

    def line(self):
        """The next line the child writes, or None; then self.end says why."""
        while b"\n" not in self.pending:
            left = self.until - time.monotonic()
            if left <= 0:
                return self.stop("wall")
            if not select.select([self.hear], [], [], min(left, 0.02))[0]:
                if self.cpu_used_ms() > self.cpu_ms:
                    return self.stop("cpu")
                continue
            part = os.read(self.hear, 65536)
            if not part:
                self.end = "died"
                return None
            self.pending += part
            if len(self.pending) > 2 * ANSWER_MAX:
                return self.stop("output")
        text, self.pending = self.pending.split(b"\n", 1)
        return text

    def stop(self, why):
        self.end = why
        try:
            with open("/proc/%d/schedstat" % self.pid) as file:
                ran, waited = map(int, file.read().split()[:2])
            self.starved = why == "wall" and ran + waited > 0 and 2 * ran < waited + ran
        except (OSError, ValueError):
            pass
        return None

    def put(self, text):
        try:
            write_all(self.ask, text + b"\n")
            return True
        except OSError:
            return False

    def close(self):
        os.close(self.ask)
        os.close(self.hear)
        # A child that ended by itself is left its status; what still runs is ended.
        pid = 0
        if self.end == "died":
            pid, status, usage = os.wait4(self.pid, 0)
        if pid == 0:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            pid, status, usage = os.wait4(self.pid, 0)
        return status, usage


def hold(code, exam, inputs):
    first = exam.line()
    answers = []
    if first is not None and b'"loaded"' in first[:12]:
        for text in inputs:
            line = exam.line() if exam.put(text) else None
            if line is None:
                break
            answers.append(line.decode("utf-8", "replace"))
    status, usage = exam.close()
    return {"first": None if first is None else first.decode("utf-8", "replace"), "answers": answers,
            "end": exam.end, "code": status, "starved": exam.starved,
            "cpu_ms": (usage.ru_utime + usage.ru_stime) * 1000, "rss_kb": usage.ru_maxrss,
            "wall_ms": (time.monotonic() - exam.begin) * 1000}


def main():
    os.closerange(3, 4096)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # Nobody may look into this process, not even a child of it.
    if libc.prctl(4, 0, 0, 0, 0) != 0:
        os._exit(96)
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    gc.collect()
    gc.freeze()
    gc.disable()
    while True:
        code_bytes, input_bytes, cpu_ms, wall_ms, memory_mb = map(int, read_all(0, HEAD).split())
        code = read_all(0, code_bytes)
        exam = Exam(code, cpu_ms, wall_ms, memory_mb)
        inputs = read_all(0, input_bytes).split(b"\n") if input_bytes else []
        write_all(1, json.dumps(hold(code, exam, inputs)).encode() + b"\n")


main()
)py";

}  // namespace tidemill
