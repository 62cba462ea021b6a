// Six kinds of tasks, each from files through `tasks try` to three training steps of the built
// program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/program.h"

namespace tidemill {
namespace {

using Json = nlohmann::json;

void Put(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

class TaskKinds : public testing::Test {
 protected:
  std::string At(const std::string& name) { return folder_ / name; }

  // Writes the task, tries it, and trains three steps on it.
  void GoesAllTheWay(const Json& task, const std::string& settings = "") {
    Put(At("tasks.jsonl"), task.dump() + "\n");
    MustRun("tasks check " + At("tasks.jsonl"));
    const ProcessOutput tried =
        RunTidemill("tasks try --json --roots " + At("roots") + " " + At("tasks.jsonl"), "");
    const Json report = Json::parse(tried.output, nullptr, false);
    ASSERT_FALSE(report.is_discarded()) << tried.output;
    EXPECT_EQ(tried.exit_code, 0) << report.dump(2);
    EXPECT_EQ(report["sound"], 1) << report.dump(2);
    MakeTinyModel(folder_.path());
    MustRun("train --set run.folder=" + At("runs") + " --set run.name=a --set model.path=" +
            At("model") + " --set tasks.train=" + At("tasks.jsonl") +
            " --set model.protocol=compact --set run.steps=3 --set rollout.group_size=2"
            " --set rollout.groups_per_step=1 --set rollout.max_turns=1"
            " --set rollout.max_turn_tokens=4 --set replay.drop_zero_variance=false"
            " --set dashboard.web=false --set learner.checkpoint_every_steps=0 " +
            settings);
  }

  TemporaryDirectory folder_;
};

TEST_F(TaskKinds, TwoFilesOfCppWithMakeCheck) {
  Put(At("repo/calc.h"), "int twice(int);\n");
  Put(At("repo/calc.cc"), "#include \"calc.h\"\nint twice(int x) { return x; }\n");
  Put(At("repo/Makefile"), "check: t\n\t./t\nt: t.cc calc.cc\n\tg++ -O0 -o t t.cc calc.cc\n");
  const std::string test =
      "#include <cassert>\n#include \"calc.h\"\nint main() { assert(twice(2) == 4);";
  GoesAllTheWay({{"id", "cpp"},
                 {"prompt", "Fix twice."},
                 {"workspace", {{"folder", "repo"}}},
                 {"solution",
                  {{"patch",
                    "--- a/calc.cc\n+++ b/calc.cc\n@@ -1,2 +1,2 @@\n"
                    " #include \"calc.h\"\n-int twice(int x) { return x; }\n"
                    "+int twice(int x) { return 2 * x; }\n"}}},
                 {"grading",
                  {{"command", {"make", "check"}},
                   {"harness", {{"t.cc", test + " }\n"}}},
                   {"canary", {{"t.cc", test + " assert(1 == 2); }\n"}}}}}});
}

TEST_F(TaskKinds, APythonFunctionWithUnittest) {
  Put(At("hidden/tests/__init__.py"), "");
  Put(At("hidden/tests/test_calc.py"),
      "import unittest\nfrom calc import double\n\n\nclass TestDouble(unittest.TestCase):\n"
      "    def test_double(self):\n        self.assertEqual(double(2), 4)\n");
  GoesAllTheWay({{"id", "python"},
                 {"prompt", "Write double in calc.py."},
                 {"answer_file", "calc.py"},
                 {"solution", {{"answer", "def double(x):\n    return 2 * x\n"}}},
                 {"grading",
                  {{"command", {"python3", "-m", "unittest", "discover", "-s", "tests", "-t", "."}},
                   {"harness_from", {{"folder", "hidden"}}}}}});
}

TEST_F(TaskKinds, ARepositoryWithFailToPassTests) {
  const std::string repo = At("repo"),
                    git = "git -C " + repo + " -c user.name=a -c user.email=a@b ";
  ASSERT_EQ(std::system(("git init -q " + repo).c_str()), 0);
  Put(repo + "/calc.py", "def double(x):\n    return x\n\n\ndef one():\n    return 1\n");
  ASSERT_EQ(std::system((git + "add -A && " + git + "commit -qm 1 && " + git + "tag base").c_str()),
            0);
  Put(repo + "/calc.py", "broken later");
  ASSERT_EQ(std::system((git + "commit -qam 2").c_str()), 0);
  GoesAllTheWay({{"id", "repository"},
                 {"prompt", "Fix double."},
                 {"workspace", {{"git", "repo"}, {"commit", "base"}}},
                 {"solution", {{"command", {"sed", "-i", "s/return x/return 2 * x/", "calc.py"}}}},
                 {"grading",
                  {{"command", {"python3", "-m", "pytest", "-q", "--junitxml={report}", "tests"}},
                   {"report", "junit"},
                   {"fail_to_pass", {"tests/test_calc.py::test_double"}},
                   {"pass_to_pass", {"tests/test_calc.py::test_one"}},
                   {"harness",
                    {{"tests/test_calc.py",
                      "import sys\nsys.path.insert(0, '.')\nfrom calc import double, one\n\n\n"
                      "def test_double():\n    assert double(2) == 4\n\n\n"
                      "def test_one():\n    assert one() == 1\n"}}}}}});
}

// The program and its libraries, as a small image would have them.
bool MakeNodeRoot(const std::string& root) {
  const std::string script =
      "set -e; node=$(readlink -f $(command -v node)); mkdir -p " + root + "/usr/bin; cp $node " +
      root +
      "/usr/bin/node; for p in $node /bin/sh; do ldd $p | grep -o \"/[^ ]*\" ; done | sort -u |"
      " while read l; do mkdir -p " +
      root + "$(dirname $l); cp -L $l " + root + "$l; done; mkdir -p " + root +
      "/bin; cp -L /bin/sh " + root + "/bin/sh; chmod -R a+rX " + root;
  return std::system(("sh -c '" + script + "' 2>/dev/null").c_str()) == 0;
}

TEST_F(TaskKinds, ANodeProjectWithARootOfItsOwn) {
  if (std::system("command -v node >/dev/null") != 0) GTEST_SKIP() << "node is not installed";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  ASSERT_TRUE(MakeNodeRoot(At("node-root")));
  const std::string test =
      "const test = require('node:test');\nconst assert = require('node:assert');\n"
      "const { twice } = require('./calc.js');\ntest('twice', () => assert.strictEqual(twice(2), "
      "4));\n";
  Put(At("repo/calc.js"), "exports.twice = (x) => x;\n");
  GoesAllTheWay(
      {{"id", "node"},
       {"prompt", "Fix twice."},
       {"root", "node-root"},
       {"workspace", {{"folder", "repo"}}},
       {"solution", {{"files", {{"calc.js", "exports.twice = (x) => 2 * x;\n"}}}}},
       {"limits", {{"memory_mb", 1024}}},
       {"grading",
        {{"command", {"/usr/bin/node", "calc.test.js"}},
         {"limits", {{"memory_mb", 1024}, {"processes", 128}}},
         {"harness", {{"calc.test.js", test}}},
         {"canary", {{"calc.test.js", test + "test('never', () => assert.ok(false));\n"}}}}}},
      "--set tools.roots=" + At("roots"));
}

TEST_F(TaskKinds, LintOnly) {
  Put(At("src/main.c"), "int main(void)\n{\n    int unused;\n    return 0;\n}\n");
  GoesAllTheWay({{"id", "lint"},
                 {"prompt", "Remove the unused variable."},
                 {"workspace", {{"folder", "src"}}},
                 {"weights", {{"lint", 1}}},
                 {"solution", {{"files", {{"main.c", "int main(void)\n{\n    return 0;\n}\n"}}}}},
                 {"grading", {{"sources", {"main.c"}}}}});
}

TEST_F(TaskKinds, TextOnlyWithAScorerThatReadsMetadata) {
  Put(At("scorer.py"),
      "import json, sys\nquestion = json.load(sys.stdin)\n"
      "assert question['metadata']['topic'] == 'queues'\n"
      "print(json.dumps({'score': 0.5}))\n");
  GoesAllTheWay({{"id", "text"},
                 {"prompt", "Write about queues."},
                 {"tools", Json::array()},
                 {"metadata", {{"topic", "queues"}}},
                 {"weights", {{"command", 1}}}},
                "--set reward.command=/usr/bin/python3," + At("scorer.py"));
}

}  // namespace
}  // namespace tidemill
