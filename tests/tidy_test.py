"""scripts/tidy finds what it is there to find: each rule is shown a small tree with one breach of it, and one without."""
import os
import shutil
import subprocess
import tempfile
import unittest

TIDY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts", "tidy")

# A tree that keeps every rule.
GOOD = {
    "src/core/one.h": "struct One {\n  int held = 0;\n};\nint Used(const One& one);\n",
    "src/core/one.cc": '#include "core/one.h"\n\nint Used(const One& one) {\n  return one.held;\n}\n',
    "src/bus/two.cc": '// As src/core/one.h says; `tidemill go` shows it.\n#include "core/one.h"\n\nint at = Used({});\n',
    "src/cli/cmd_go.cc": 'void AddGo() {\n  app.add_subcommand("go", "Go");\n}\nint all = (AddGo(), 0);\n',
    "src/tasks/task_config.h": 'struct TaskConfig {\n  TM_SECTION("tasks");\n  TM_KEY(int, limit, 1, {});\n  TM_KEY(int, floor, 1, {});\n};\n',
    "src/tasks/tasks.cc": '#include "tasks/task_config.h"\n\nint tried = limit + floor;\n',
    "prover/prover.h": "int Prove();\n",
    "prover/inside.h": "int Inside();\n",
    "prover/prover.cc": '#include "prover/inside.h"\n#include "prover/prover.h"\n\nint Prove() {\n  return Inside();\n}\n',
    "prover/inside.cc": "int Inside() {\n  return 1;\n}\n",
    "src/reward/ask.cc": '#include "prover/prover.h"\n\nint proved = Prove();\n',
    "docs/page.md": "A page about `src/core/one.h`.\n",
}


class TidyTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        os.makedirs(os.path.join(self.root, "scripts"))
        shutil.copy(TIDY, os.path.join(self.root, "scripts", "tidy"))
        for name, text in GOOD.items():
            self.write(name, text)

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def said(self, rule):
        run = subprocess.run([os.path.join(self.root, "scripts", "tidy"), rule], capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.stderr, "")
        return run.stdout

    def finds(self, rule, name, text, said):
        self.assertEqual(self.said(rule), "")
        self.write(name, text)
        self.assertIn(said, self.said(rule))

    def test_an_include_against_the_arrows(self):
        self.finds("includes", "src/core/up.cc", '#include "bus/two.h"\n', "src/core must not include bus/")

    def test_a_room_entered_by_another_door(self):
        self.finds("doors", "src/reward/ask.cc", '#include "prover/inside.h"\n', "src/reward/ask.cc:1: prover/")

    def test_a_class_in_two_files(self):
        self.write("src/core/both.cc", "void Both::Left() {\n}\n")
        self.finds("classes", "src/core/both_more.cc", "void Both::Right() {\n}\n", "Both is defined in 2 files")

    def test_a_function_that_nobody_calls(self):
        self.finds("unused", "src/core/more.cc", "int Lonely() {\n  return 1;\n}\n", "nobody but tests calls Lonely")

    def test_a_call_by_a_test_does_not_count(self):
        self.write("src/core/more_test.cc", "int tried = Lonely();\n")
        self.finds("unused", "src/core/more.cc", "int Lonely() {\n  return 1;\n}\n", "nobody but tests calls Lonely")

    def test_a_field_that_is_only_written(self):
        self.finds("unused", "src/core/more.cc", "struct Deaf {\n  int heard = 0;\n};\nvoid Used(Deaf& d) {\n  d.heard = 1;\n}\n",
                   "Deaf::heard is read by nobody")

    def test_a_key_bound_twice(self):
        self.finds("keys", "src/bus/bus_config.h", 'struct More {\n  TM_SECTION("tasks");\n  TM_KEY(int, floor, 1, {});\n};\n',
                   "the key tasks.floor is bound a second time")

    def test_a_key_that_nobody_reads(self):
        self.finds("unused", "src/bus/bus_config.h",
                   'struct BusConfig {\n  TM_SECTION("bus");\n  TM_KEY(int, length, 1, {.doc = "Its length; in steps"});\n};\n',
                   "BusConfig::length is read by nobody but tests")

    def test_a_file_that_a_comment_names_in_vain(self):
        self.finds("comments", "src/bus/two.cc", "// As src/core/gone.h says.\n", "src/core/gone.h does not exist")

    def test_a_command_that_a_comment_names_in_vain(self):
        self.finds("comments", "src/bus/two.cc", "// `tidemill gone` shows it.\n", "there is no command tidemill gone")

    def test_a_file_that_a_page_names_in_vain(self):
        self.finds("docs", "docs/page.md", "See `src/core/gone.h`.\n", "src/core/gone.h does not exist")


if __name__ == "__main__":
    unittest.main()
