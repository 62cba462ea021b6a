"""The process that tells trackers, without their packages: python3 -m unittest discover python/tests."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tidemill import track  # noqa: E402
from tidemill.run import Run  # noqa: E402


class Recorder:
    def __init__(self):
        self.points, self.tables = [], []

    def point(self, at_ms, step, scalars):
        self.points.append((step, scalars))

    def table(self, name, columns, rows):
        self.tables.append((name, columns, rows))


class TrackTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name) / "r"
        self.path.mkdir()
        (self.path / "config.toml").write_text("[run]\nsteps = 2\n")
        self.run_ = Run.open(self.path)

    def write(self, *points, end=""):
        lines = [json.dumps({"at_ms": at, "step": step, "scalars": {"x": step}}) for at, step in points]
        (self.path / "track.jsonl").write_text("\n".join(lines) + "\n" + end)

    def follow(self):
        recorder = Recorder()
        track.follow(self.run_, [recorder], os.getppid(), [True])
        return [step for step, _ in recorder.points]

    def test_each_point_is_told_once_also_over_a_resume(self):
        self.write((10, 1), (20, 2), end='{"at_ms"')
        self.assertEqual(self.follow(), [1, 2])
        # It begins anew with what the run has; step 2 was made again, and one was never told.
        self.write((10, 1), (15, 1), (30, 2), (40, 3))
        self.assertEqual(self.follow(), [1, 2, 3])
        self.assertEqual(self.follow(), [])

    def test_the_end_is_told_with_evaluations_and_transcripts(self):
        program = self.path / "tidemill"
        program.write_text("#!/bin/sh\n"
                           "case \"$*\" in\n"
                           "  *show*) echo '{\"status\": \"done\", \"eval\": {\"after\": {\"n\": 4, \"pass_rate\": 0.5}}}';;\n"
                           "  *export*) echo '{\"task\": \"t\", \"member\": 1, \"reward\": 0.5, \"solved\": true, \"messages\": []}'"
                           " >\"$7\";;\n"
                           "esac\n")
        program.chmod(0o755)
        os.environ["TIDEMILL_PROGRAM"] = str(program)
        self.addCleanup(os.environ.pop, "TIDEMILL_PROGRAM")
        recorder = Recorder()
        self.assertTrue(track.tell_end(self.run_, [recorder]))
        self.assertEqual(recorder.tables, [("evaluations", ["evaluation", "n", "pass_rate"], [["after", 4, 0.5]]),
                                           ("transcripts", ["task", "member", "reward", "solved", "messages"],
                                            [["t", 1, 0.5, True, "[]"]])])

    def start(self, *words, **environment):
        return subprocess.run([sys.executable, "-m", "tidemill.track", str(self.path), *words], capture_output=True,
                              text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT), **environment})

    def test_a_package_that_is_not_there_is_named(self):
        self.write((10, 1))
        (self.path / "wandb.py").write_text("raise ImportError('no such thing here')")
        done = self.start("--to", "wandb", PYTHONPATH=f"{self.path}:{ROOT}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wandb: ImportError: no such thing here", done.stderr)

    def test_a_run_that_told_nothing_is_named(self):
        done = self.start("--to", "wandb")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no track.jsonl: the run had no [track]", done.stderr)


if __name__ == "__main__":
    unittest.main()
