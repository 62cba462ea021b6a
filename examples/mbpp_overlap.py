#!/usr/bin/env python3
"""Whether anything of the test splits is in the training splits, by behaviour and not only by text.

usage: examples/mbpp_overlap.py DATA                     the folder of mbpp.jsonl and pyfunc.jsonl
       examples/mbpp_overlap.py DATA --drop-from FILE..  imported MBPP tasks or demonstrations of the training split

MBPP: every training solution is run against the tests of every test task, under the name that the tests call.
pyfunc: every chain of operations is computed by this file's own definitions, which must satisfy all assertions of
the set; two tasks behave alike if they agree on every input of their type in the whole set.
Prints one JSON object for each set. Exits with 1 if a behaviour of pyfunc's test split is trained on.
--drop-from: checks MBPP alone and rewrites the files without the training tasks whose solutions solve a test task.
"""
import builtins, json, multiprocessing, os, re, resource, signal, sys

OPERATIONS = {  # x: what came so far; n: the number in the operation's name
    "list": {
        "reverse": lambda x, n: x[::-1], "square": lambda x, n: [a * a for a in x],
        "negate": lambda x, n: [-a for a in x], "absolute": lambda x, n: [abs(a) for a in x],
        "double": lambda x, n: [2 * a for a in x], "times": lambda x, n: [n * a for a in x],
        "plus": lambda x, n: [a + n for a in x], "minus": lambda x, n: [a - n for a in x],
        "modulo": lambda x, n: [a % n for a in x], "divisible": lambda x, n: [a for a in x if a % n == 0],
        "even": lambda x, n: [a for a in x if a % 2 == 0], "odd": lambda x, n: [a for a in x if a % 2],
        "greater": lambda x, n: [a for a in x if a > n], "less": lambda x, n: [a for a in x if a < n],
        "unique": lambda x, n: list(dict.fromkeys(x)), "ascending": lambda x, n: sorted(x),
        "descending": lambda x, n: sorted(x, reverse=True), "every": lambda x, n: x[::n],
        "first": lambda x, n: x[:n], "last": lambda x, n: x[-n:], "drop": lambda x, n: x[n:]},
    "str": {
        "reverse": lambda x, n: x[::-1], "consonants": lambda x, n: re.sub("[aeiouAEIOU]", "", x),
        "double": lambda x, n: "".join(c + c for c in x), "title": lambda x, n: x.title(),
        "upper": lambda x, n: x.upper(), "lower": lambda x, n: x.lower(), "swap": lambda x, n: x.swapcase(),
        "sortwords": lambda x, n: " ".join(sorted(x.split())), "words": lambda x, n: " ".join(x.split()[::-1]),
        "nospace": lambda x, n: x.replace(" ", ""), "dash": lambda x, n: x.replace(" ", "-"),
        "every": lambda x, n: x[::n], "repeat": lambda x, n: x * n, "head": lambda x, n: x[:n],
        "tail": lambda x, n: x[-n:]}}
ENDS = {
    "list": {"": lambda x: x, "text": lambda x: ",".join(map(str, x)), "sum": sum, "count": len,
             "smallest": lambda x: min(x, default=0), "largest": lambda x: max(x, default=0)},
    "str": {"": lambda x: x, "words": str.split, "first": lambda x: x[:1], "length": len,
            "count": lambda x: x.count("a")}}


def chain_of(task_id):
    """pyfunc-HASH-OPERATION-OPERATION=END-TYPE as (type, function)."""
    words, kind = task_id.split("-", 2)[2].rsplit("-", 1)
    steps, _, end = words.partition("=")
    parsed = [re.fullmatch(r"([a-z]+)(\d*)", step).groups() for step in steps.split("-")]

    def run(x):
        for name, number in parsed:
            x = OPERATIONS[kind][name](x, int(number or 0))
        return ENDS[kind][end](x)
    return kind, run


def pyfunc(path):
    tasks, inputs, wrong = [json.loads(line) for line in open(path)], {"list": [], "str": []}, 0
    for task in tasks:
        kind, run = chain_of(task["task_id"])

        def recorded(x):
            inputs[kind].append(x)
            return run(x)
        for assertion in task["shown"] + task["hidden"]:
            try:
                exec(assertion, {re.match(r"assert (\w+)\(", assertion).group(1): recorded})
            except AssertionError:
                wrong += 1
    # Where every fortieth input tells two chains apart, the others need not be looked at.
    few = {kind: x[::40] for kind, x in inputs.items()}

    def behaviour(task, over):
        kind, run = chain_of(task["task_id"])
        return kind, repr([run(x) for x in over[kind]])
    trained = {}
    for task in tasks:
        if task["split"] == "train":
            trained.setdefault(behaviour(task, few), []).append(task)
    both = []
    for task in tasks:
        if task["split"] == "test":
            for other in trained.get(behaviour(task, few), []):
                if behaviour(task, inputs) == behaviour(other, inputs):
                    both.append([task["task_id"], other["task_id"]])
    return {"set": "pyfunc", "inputs": {kind: len(x) for kind, x in inputs.items()}, "assertions_not_met": wrong,
            "test_tasks": sum(t["split"] == "test" for t in tasks), "behaviours_in_both": both}


class TooLong(Exception):
    pass


def passes(task, called, code):
    """Whether the last function that the code defines passes the task's tests, within half a second of CPU."""
    scope = {"__name__": "answer"}
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.5)
        exec(task["test_setup_code"] + "\n" + code, scope)
        function = [f for f in scope.values() if getattr(f, "__module__", "") == "answer"][-1]
        names = {name: function for name in called - vars(builtins).keys() - scope.keys()}
        for test in task["test_list"]:
            exec(test, {**scope, **names})
        return True
    except BaseException:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def solved_by(job):
    """Which training solutions pass all tests of one test task. Runs in a process of its own."""
    task, solutions = job

    def stop(*_):
        raise TooLong
    signal.signal(signal.SIGVTALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    sys.stdout = sys.stderr = open(os.devnull, "w")
    called = set(re.findall(r"(\w+)\(", " ".join(task["test_list"])))
    found = []
    for number, code in solutions:
        try:
            if passes(task, called, code):
                found.append(number)
        except TooLong:  # It came while the timer was being stopped.
            pass
    return task["task_id"], found


def mbpp(path):
    tasks = [json.loads(line) for line in open(path)]
    solutions = [(t["task_id"], t["code"]) for t in tasks if t["task_id"] > 600]
    test = [t for t in tasks if 11 <= t["task_id"] <= 510]
    with multiprocessing.Pool(maxtasksperchild=20) as pool:
        found = [f for f in pool.imap_unordered(solved_by, [(t, solutions) for t in test]) if f[1]]
    return {"set": "mbpp", "test_tasks": len(test), "training_solutions": len(solutions),
            "test_tasks_that_a_training_solution_solves": len(found), "which": dict(sorted(found))}


def drop(overlap, files):
    """Rewrites each file of JSON lines without the tasks whose training solution solves a test task."""
    dropped = {f"mbpp-{number}" for numbers in overlap["which"].values() for number in numbers}
    for name in files:
        lines = open(name).readlines()
        rows = [json.loads(line) for line in lines]
        kept = [line for line, row in zip(lines, rows) if (row["id"] if "id" in row else row["task"]) not in dropped]
        if len(kept) == len(lines) and dropped:
            sys.exit(f"{name}: has none of the {len(dropped)} tasks to drop; is it MBPP's training split?")
        with open(name + ".kept", "w") as file:
            file.writelines(kept)
        os.replace(name + ".kept", name)
        print(f"{name}: {len(kept)} of {len(lines)} kept; the others solve a test task", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 2 and not (len(sys.argv) > 3 and sys.argv[2] == "--drop-from"):
        sys.exit(__doc__)
    data = sys.argv[1]
    if len(sys.argv) > 3:
        drop(mbpp(os.path.join(data, "mbpp.jsonl")), sys.argv[3:])
        sys.exit(0)
    alike = pyfunc(os.path.join(data, "pyfunc.jsonl"))
    print(json.dumps(alike))
    print(json.dumps(mbpp(os.path.join(data, "mbpp.jsonl"))))
    sys.exit(1 if alike["behaviours_in_both"] or alike["assertions_not_met"] else 0)
