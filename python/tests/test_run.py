"""A run by the program itself, scored by a Python function; TIDEMILL_PROGRAM names the program."""
import json
import os
import re
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests"))

import functions  # noqa: E402
import scorers  # noqa: E402

import tidemill  # noqa: E402
from tidemill.program import run_program  # noqa: E402


@unittest.skipUnless(os.environ.get("TIDEMILL_PROGRAM"), "TIDEMILL_PROGRAM does not name the program")
class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = Path(cls.scratch.name)
        run_program("tasks", "generate", "--family", "cfunc", "--count", "40", "--seed", "3", "--difficulty", "1,2",
                    "--out", str(cls.folder / "train.jsonl"))
        run_program("tasks", "model", "--family", "cfunc", "--width", "32", "--layers", "2", "--heads", "2",
                    "--feed-forward", "64", "--out", str(cls.folder / "shape"))
        run_program("model", "new", "--config", str(cls.folder / "shape" / "config.json"), "--tokenizer",
                    str(cls.folder / "shape"), "--seed", "1", "--out", str(cls.folder / "model"))

    def keys(self, steps):
        return {"run": {"steps": steps}, "dashboard.web": False,
                "model": {"path": self.folder / "model", "protocol": "compact"},
                "tasks.train": self.folder / "train.jsonl", "replay.drop_zero_variance": False,
                "rollout": {"group_size": 4, "groups_per_step": 2, "max_turn_tokens": 8, "max_turns": 1}}

    def test_a_run_is_started_followed_read_and_gone_on_with(self):
        run = tidemill.Run(None, self.keys(1), name="first", folder=self.folder / "runs", reward=scorers.by_member)
        self.assertIn("not started", repr(run))
        lines = list(run.start().follow())
        summary = run.wait(120)
        self.assertEqual((summary["status"], summary["steps"]), ("done", 1), run.log(30))
        self.assertEqual(lines, run.metrics())
        rewards = {row["member"]: row["reward"] for row in run.episodes(purpose="train") if row["scored"]}
        for member, reward in rewards.items():
            self.assertAlmostEqual(reward, 0.2 + 0.3 * (member % 3), places=5)
        self.assertGreaterEqual(len(rewards), 4)
        row = next(run.trajectories(limit=1))
        self.assertEqual(len(row["completion_ids"]), len(row["completion_mask"]))
        self.assertIn("<td>done</td>", run._repr_html_())

        again = tidemill.Run.open(self.folder / "runs" / "first").start({"run.steps": 2})
        self.assertEqual(again.wait(120)["steps"], 2, again.log(30))
        self.assertIn("first", [listed["run"] for listed in tidemill.runs(self.folder / "runs")])

    def test_a_scorer_that_raises_makes_no_reward(self):
        run = tidemill.Run(None, {**self.keys(1), "reward.retries": 0}, name="raises", folder=self.folder / "runs",
                           reward=scorers.raises)
        with self.assertRaisesRegex(tidemill.TidemillError, "ZeroDivisionError"):
            run.start().wait(120)  # the trial question has nothing submitted

    def test_a_scorer_that_raises_hangs_or_is_killed_makes_episodes_stale_and_never_zero(self):
        keys = {**self.keys(2), "reward.retries": 0, "reward.command_timeout": "2s"}
        run = tidemill.Run(None, keys, name="fails", folder=self.folder / "runs", reward=scorers.raises_hangs_and_dies)
        summary = run.start().wait(120)
        self.assertEqual((summary["status"], summary["steps"]), ("done", 2), run.log(30))
        failed = [row for row in run.episodes(purpose="train") if row["member"] == 3 and row["cause"]]
        self.assertGreaterEqual(len(failed), 3)
        for row in failed:
            self.assertEqual((row["fate"], row["reward"], row["scored"]), ("stale", None, False), row)
            way = {0: "out of order", 1: "no answer within 2000 ms", 2: "signal 9"}[row["group"] % 3]
            self.assertIn(way, row["cause"])
        for row in run.episodes(purpose="train"):
            if row["scored"]:
                self.assertAlmostEqual(row["reward"], 0.2 + 0.3 * row["member"], places=5)

    def test_groups_are_filtered_and_weighed_by_functions(self):
        run = tidemill.Run(None, self.keys(2), name="groups", folder=self.folder / "runs", reward=scorers.by_member,
                           advantage=functions.centered, filter=functions.first_three)
        run.start().wait(120)
        steps = run.metrics("step")
        self.assertEqual([step["left_out"] for step in steps], [2, 2], run.log(30))
        # Rewards of a group are 0.2, 0.5, 0.8, 0.2: three of four are trained on.
        for step in steps:
            self.assertAlmostEqual(step["advantage_abs"], (0.225 + 0.075 + 0.375) / 4, places=5)

    def test_a_function_of_groups_that_raises_ends_the_run_and_no_step_is_taken(self):
        run = tidemill.Run(None, {**self.keys(2), "reward.retries": 0}, name="groupless", folder=self.folder / "runs",
                           reward=scorers.by_member, filter=functions.raises)
        with self.assertRaisesRegex(tidemill.TidemillError, r"LookupError: no such group \(functions.py"):
            run.start().wait(120)
        self.assertEqual(run.metrics("step"), [])

    def test_a_tool_is_offered_to_the_model_and_a_wrong_one_is_refused(self):
        run = tidemill.Run(None, self.keys(1), name="tool", folder=self.folder / "runs", reward=scorers.by_member,
                           tools=[functions.word_count])
        self.assertEqual(run.start().wait(120)["status"], "done", run.log(30))
        self.assertIn('name = "word_count"', (run.path / "config.toml").read_text())
        wrong = {**self.keys(1), "tools.command": [{**functions.word_count.table(), "parameters": "[1]"}]}
        with self.assertRaisesRegex(tidemill.TidemillError, "JSON schema of an object"):
            tidemill.Run(None, wrong, name="wrong", folder=self.folder / "runs").start().wait(60)

    def test_the_tinker_api_is_served_beside_a_run(self):
        keys = {**self.keys(100000), "tinker.on": True, "tinker.port": 0}
        with tidemill.Run(None, keys, name="served", folder=self.folder / "runs", reward=scorers.by_member) as run:
            for _ in run.follow("step"):
                break
            url = re.search(r"the Tinker API is served.*?(http://[\w.:]+)", run.log(100))
            self.assertIsNotNone(url, run.log(100))
            with urllib.request.urlopen(url[1] + "/api/v1/get_server_capabilities") as reply:
                models = json.load(reply)["supported_models"]
        self.assertEqual([model["model_name"] for model in models], [str(self.folder / "model")])
        self.assertTrue((run.path / "tinker" / "tinker.db").exists())

    def test_a_key_that_does_not_exist_is_named(self):
        with self.assertRaisesRegex(tidemill.TidemillError, "run.stepz") as caught:
            tidemill.Run(None, {"run.stepz": 3}, folder=self.folder / "runs").start().wait(60)
        self.assertEqual(caught.exception.status, 2)

    def test_a_model_is_served_while_the_block_lasts(self):
        with tidemill.serve(self.folder / "model") as server:
            answer = server.chat([{"role": "user", "content": "hello"}], max_tokens=4)
            self.assertEqual(answer["object"], "chat.completion")


if __name__ == "__main__":
    unittest.main()
