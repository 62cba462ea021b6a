"""The package without the program: python3 -m unittest discover python/tests, from the tree's root."""
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests"))

import functions  # noqa: E402
import scorers  # noqa: E402

import tidemill  # noqa: E402
from tidemill.config import set_words, tables_text, toml_value  # noqa: E402
from tidemill.group import group_keys  # noqa: E402


def question(number, **fields):
    asked = {"id": number, "task": "t", "group": 1, "member": number, "submission": "x",
             "tools": {"grade": {"tests_passed": 1, "tests_total": 4}}, **fields}
    return json.dumps(asked) + "\n"


def ask_worker(kept, *questions):
    command = kept if isinstance(kept, list) else kept.command
    done = subprocess.run(command, input="".join(questions), capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    return {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}


class ScorerTest(unittest.TestCase):
    def test_a_function_answers_many_questions_in_one_process(self):
        answers = ask_worker(scorers.by_member, question(0), question(1), question(2))
        self.assertEqual([answers[i]["score"] for i in range(3)], [0.2, 0.5, 0.8])
        self.assertEqual(answers[1], {"id": 1, "score": 0.5, "comment": "member 1", "version": 3})

    def test_an_async_function_holds_no_other_question_back(self):
        done = subprocess.run(scorers.slow_first.command, input=question(0) + question(1), capture_output=True,
                              text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer["id"] for answer in answers], [1, 0])
        self.assertEqual(answers[0]["parts"], {"share": 0.25})

    def test_an_exception_is_an_error_with_its_traceback_and_no_score(self):
        answers = ask_worker(scorers.raises, question(0, submission=""), question(1))
        self.assertNotIn("score", answers[0])
        self.assertIn("ZeroDivisionError", answers[0]["error"])
        self.assertIn("scorers.py", answers[0]["error"])
        self.assertEqual(answers[1]["score"], 1)

    def test_what_is_no_number_is_named(self):
        self.assertIn("'good'", ask_worker(scorers.no_number, question(0))[0]["error"])

    def test_a_function_without_a_file_is_refused(self):
        space = {"tidemill": tidemill}
        exec("@tidemill.scorer\ndef loose(episode): return 1", space)
        with self.assertRaisesRegex(ValueError, "is not in a file"):
            _ = space["loose"].command

    def test_an_unknown_name_is_named(self):
        command = [*scorers.by_member.command[:-1], "asyncio"]
        done = subprocess.run(command, input="", capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has no function asyncio", done.stderr)


def call(number, arguments, **files):
    return json.dumps({"id": number, "tool": "t", "arguments": arguments, "task": "t", "group": 1, "member": 0,
                       "files": {path.replace("_", "."): text for path, text in files.items()}}) + "\n"


class ToolTest(unittest.TestCase):
    def test_the_model_is_told_name_docstring_and_parameters(self):
        table = functions.word_count.table()
        self.assertEqual(table["name"], "word_count")
        self.assertEqual(table["description"], "Counts the words of a file that are long enough.")
        self.assertEqual(json.loads(table["parameters"]),
                         {"type": "object", "properties": {"path": {"type": "string"}, "least": {"type": "integer"}},
                          "required": ["path"]})
        self.assertTrue(table["changes"])
        self.assertEqual((functions.rename.table()["slots"], functions.rename.table()["wall_ms"]), (3, 5000))

    def test_it_reads_and_changes_the_workspace(self):
        answers = ask_worker(functions.word_count, call(1, {"path": "a.c", "least": 3}, a_c="int main of words"))
        self.assertEqual(answers[1], {"id": 1, "text": "3"})
        answers = ask_worker(functions.rename, call(1, {"old": "a.c", "new": "b.c"}, a_c="x", c_c="y"))
        self.assertEqual(answers[1], {"id": 1, "text": "a.c is now b.c", "files": {"b.c": "x", "a.c": None}})

    def test_a_refusal_is_the_agents_and_an_exception_is_ours(self):
        answers = ask_worker(functions.word_count, call(1, {"path": "b.c"}, a_c="x"))
        self.assertEqual(answers[1], {"id": 1, "text": "there is no file b.c", "failed": True})
        answers = ask_worker(functions.rename, call(1, {"old": "no", "new": "b.c"}))
        self.assertIn("KeyError: 'no' (functions.py:", answers[1]["error"])
        self.assertNotIn("text", answers[1])
        self.assertIn("a str, got 3", ask_worker(functions.no_text, call(1, {}))[1]["error"])

    def test_a_parameter_without_a_type_is_refused(self):
        with self.assertRaisesRegex(TypeError, "parameter path of the tool loose needs a type"):
            @tidemill.tool
            def loose(path):
                return path
        with self.assertRaisesRegex(TypeError, "parameter number of the tool odd must be str, int"):
            @tidemill.tool
            def odd(number: complex) -> str:
                return str(number)


def about(number, *rewards):
    members = [{"member": i, "reward": reward, "parts": {}, "solved": False, "end": "submitted" if reward else "turns",
                "turns": 1, "generated_tokens": 3, "submission": ""} for i, reward in enumerate(rewards)]
    return json.dumps({"id": number, "group": 5, "task": "t", "members": members}) + "\n"


class GroupTest(unittest.TestCase):
    def test_one_program_answers_for_a_filter_and_an_advantage(self):
        keys = group_keys(functions.centered, functions.submitted)
        self.assertEqual(keys["learner.group_slots"], 7)
        answers = ask_worker(keys["learner.group_command"], about(1, 1.0, 0.0), about(2, 0.5, 0.5))
        self.assertEqual(answers[1], {"id": 1, "keep": [True, False], "advantages": [0.5, -0.5]})
        self.assertEqual(answers[2], {"id": 2, "keep": [True, True], "advantages": [0.0, 0.0]})
        self.assertEqual(group_keys(None, None), {})

    def test_one_truth_is_for_the_whole_group(self):
        self.assertEqual(ask_worker(functions.never, about(1, 1.0, 0.0))[1]["keep"], [False, False])

    def test_another_number_of_values_is_an_error(self):
        answers = ask_worker(functions.too_few, about(1, 1.0, 0.0))
        self.assertIn("one value for each of the 2 members, got 1", answers[1]["error"])


class ConfigTest(unittest.TestCase):
    def test_values_are_written_as_toml_reads_them(self):
        import tomllib

        values = {"a": True, "b": 3, "c": 0.5, "d": 'a "quoted"\nline', "e": ["x", 1], "f": {"g h": 1.0}}
        text = "\n".join(f"{key} = {toml_value(value)}" for key, value in values.items())
        self.assertEqual(tomllib.loads(text), values)

    def test_nested_and_dotted_keys_are_the_same(self):
        self.assertEqual(set_words({"run": {"steps": 3}}), ["--set", "run.steps=3"])
        self.assertEqual(set_words({"run.steps": 3}), ["--set", "run.steps=3"])
        self.assertEqual(set_words({"reward": {"weights": {"command": 1.0}}}),
                         ["--set", 'reward.weights={"command" = 1.0}'])

    def test_lists_of_tables_are_given_in_a_file(self):
        import tomllib

        keys = {"judge": [{"name": "a", "votes": 3}, {"name": "b"}], "tools": {"command": [{"name": "c"}]}, "run.steps": 1}
        self.assertEqual(set_words(keys), ["--set", "run.steps=1"])
        self.assertEqual(tomllib.loads(tables_text(keys)), {"judge": keys["judge"], "tools": keys["tools"]})
        self.assertEqual(tables_text({"run.steps": 1}), "")

    def test_what_is_no_value_is_named(self):
        with self.assertRaisesRegex(TypeError, "object"):
            toml_value(object())


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        before = os.environ.get("TIDEMILL_PROGRAM")
        self.addCleanup(lambda: os.environ.pop("TIDEMILL_PROGRAM", None) if before is None
                        else os.environ.update(TIDEMILL_PROGRAM=before))

    def program(self, script):
        path = Path(self.folder.name) / "tidemill"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        os.environ["TIDEMILL_PROGRAM"] = str(path)

    def test_a_refusal_carries_the_programs_words_and_status(self):
        self.program("echo 'run.toml:3: \"run.steps\" must be a whole number' >&2; exit 2")
        with self.assertRaisesRegex(tidemill.TidemillError, "run.toml:3") as caught:
            tidemill.Run("run.toml", name="x", folder=self.folder.name).start().wait(30)
        self.assertEqual(caught.exception.status, 2)

    def test_a_line_that_is_half_written_is_read_when_it_is_whole(self):
        self.program("exit 0")
        run = tidemill.Run(name="x", folder=self.folder.name)
        run.path.mkdir()
        (run.path / "metrics.jsonl").write_text('{"kind": "step"}\n{"kind": "tick"}\n{"kind"')
        self.assertEqual(list(run.follow()), [{"kind": "step"}, {"kind": "tick"}])
        self.assertEqual(list(run.follow("tick", "eval")), run.metrics("tick"))
        self.assertEqual(run.metrics(), [{"kind": "step"}, {"kind": "tick"}])

    def test_tasks_that_the_program_refuses_leave_the_file_as_it_was(self):
        target = Path(self.folder.name) / "tasks.jsonl"
        self.program("exit 0")
        tidemill.write_tasks([{"id": "a", "prompt": "é"}], target)
        before = target.read_bytes()
        self.assertEqual(json.loads(before), {"id": "a", "prompt": "é"})
        self.program("echo 'tasks.jsonl.part:1: \"prompt\" is missing' >&2; exit 1")
        with self.assertRaisesRegex(tidemill.TidemillError, '"prompt" is missing'):
            tidemill.write_tasks([{"id": "b"}], target)
        self.assertEqual(target.read_bytes(), before)
        self.assertEqual(os.listdir(self.folder.name).count("tasks.jsonl.part"), 0)

    def test_a_server_that_does_not_start_says_why(self):
        self.program("echo 'error: there is no model in DIR' >&2; exit 1")
        with self.assertRaisesRegex(tidemill.TidemillError, "no model in DIR"):
            with tidemill.serve("DIR"):
                self.fail("it started")

    def test_tools_are_given_behind_what_the_config_file_has(self):
        self.program(f'echo "$@" >{self.folder.name}/words')
        config = Path(self.folder.name) / "mine.toml"
        config.write_text("[run]\nsteps = 3\n")
        run = tidemill.Run(config, {"run.seed": 4}, name="x", folder=self.folder.name, tools=[functions.rename])
        list(run.start().follow())
        import tomllib

        seen = tomllib.loads((Path(self.folder.name) / "x.toml").read_text())
        self.assertEqual(seen["run"], {"steps": 3})
        self.assertEqual(seen["tools"]["command"], [functions.rename.table()])
        words = (Path(self.folder.name) / "words").read_text()
        self.assertIn(f"{self.folder.name}/x.toml --set run.seed=4", words)
        self.assertNotIn("tools.command", words)

    def test_feedback_goes_to_the_session_of_the_client(self):
        client = tidemill.Client("http://localhost:1/", key="k", session="a b")
        self.assertEqual(repr(client), "<tidemill client of http://localhost:1, session a b>")
        with self.assertRaisesRegex(ValueError, "needs an answer, or a session"):
            tidemill.Client("http://localhost:1").feedback(score=1)

    def test_a_missing_program_is_named(self):
        os.environ["TIDEMILL_PROGRAM"] = "/nowhere/tidemill"
        with self.assertRaisesRegex(tidemill.TidemillError, "/nowhere/tidemill"):
            tidemill.runs()

    def test_a_run_that_is_none_is_refused(self):
        with self.assertRaisesRegex(FileNotFoundError, "config.toml"):
            tidemill.Run.open(self.folder.name)


if __name__ == "__main__":
    unittest.main()
