// Gradings by a command, and published ways to earn a reward without solving the task: each of them
// passes the test command itself, and none of them earns anything.
#include "tools/command_grader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/prepare_tasks.h"
#include "testing/tool_fixture.h"
#include "tools/test_report.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

constexpr char kHonest[] = "def double(x):\n    return 2 * x\n";
constexpr char kWrong[] = "def double(x):\n    return x\n";

constexpr char kPytest[] =
    "from calc import double\n\n\n"
    "def test_two():\n    assert double(2) == 4\n\n\n"
    "def test_three():\n    assert double(3) == 6\n";
constexpr char kUnittest[] =
    "import unittest\nfrom calc import double\n\n\n"
    "class TestDouble(unittest.TestCase):\n"
    "    def test_two(self):\n        self.assertEqual(double(2), 4)\n\n"
    "    def test_three(self):\n        self.assertEqual(double(3), 6)\n";

v1::File FileOf(const char* path, const std::string& content) {
  return TreeOf({{path, content}}).files(0);
}

enum class Runner { kPytestExit, kPytestJunit, kUnittest };

v1::Grading PythonGrading(Runner runner) {
  std::vector<v1::Task> tasks(1);
  v1::Grading& grading = *tasks[0].mutable_grading();
  tasks[0].set_id("t");
  grading.set_mode(v1::Grading::MODE_COMMAND);
  *grading.add_harness() =
      FileOf("tests/test_calc.py", runner == Runner::kUnittest ? kUnittest : kPytest);
  std::vector<std::string> words = {"python3", "-m", "pytest", "-q", "tests"};
  if (runner == Runner::kPytestJunit) {
    words.push_back("--junitxml={report}");
    grading.set_report(v1::Grading::REPORT_JUNIT);
    grading.add_fail_to_pass("tests/test_calc.py::test_two");
    grading.add_pass_to_pass("tests/test_calc.py::test_three");
  }
  if (runner == Runner::kUnittest)
    words = {"python3", "-m", "unittest", "discover", "-s", "tests", "-t", "."};
  for (const std::string& word : words) grading.add_run(word);
  if (runner == Runner::kUnittest) *grading.add_harness() = FileOf("tests/__init__.py", "");
  TM_CHECK(PrepareTasks({}, &tasks).ok());
  return tasks[0].grading();
}

class CommandGrader : public ToolTest {
 protected:
  static v1::ToolResult Grade(const v1::Tree& tree, const v1::Grading& grading) {
    v1::ToolRequest request = Request("grade", {});
    *request.mutable_tree() = tree;
    *request.mutable_grading() = grading;
    return Call(request);
  }
  static void EarnsNothing(const v1::Tree& tree, const v1::Grading& grading,
                           const std::string& what) {
    const auto result = Grade(tree, grading);
    EXPECT_EQ(result.tests_passed(), 0u) << what << ": " << result.ShortDebugString();
    EXPECT_GT(result.tests_total(), 0u) << what;
    EXPECT_EQ(Name(result), "failed") << what << ": " << result.cause();
  }
  static void EarnsNothingInAnyRunner(const std::string& calc, const std::string& what,
                                      Texts others = {},
                                      std::initializer_list<Runner> runners = {Runner::kPytestJunit,
                                                                               Runner::kUnittest}) {
    for (const Runner runner : runners) {
      v1::Tree tree = TreeOf(others);
      *tree.add_files() = FileOf("calc.py", calc);
      EarnsNothing(tree, PythonGrading(runner),
                   what + " in runner " + std::to_string(static_cast<int>(runner)));
    }
  }
};

TEST_F(CommandGrader, AnHonestAnswerPassesInEveryRunner) {
  for (const Runner runner : {Runner::kPytestExit, Runner::kPytestJunit, Runner::kUnittest}) {
    const auto result = Grade(TreeOf({{"calc.py", kHonest}}), PythonGrading(runner));
    EXPECT_EQ(Name(result), "ok") << result.ShortDebugString();
    EXPECT_EQ(result.tests_passed(), result.tests_total());
    EXPECT_EQ(result.tests_total(), runner == Runner::kPytestJunit ? 2u : 1u);
  }
}

TEST_F(CommandGrader, AWrongAnswerFailsAndAPartlyRightOnePassesPartly) {
  EarnsNothingInAnyRunner(kWrong, "a wrong answer");
  const auto partly = Grade(TreeOf({{"calc.py", "def double(x):\n    return 6\n"}}),
                            PythonGrading(Runner::kPytestJunit));
  EXPECT_EQ(partly.tests_passed(), 1u);
  EXPECT_EQ(partly.tests_total(), 2u);
  ASSERT_EQ(partly.failures_size(), 1);
  EXPECT_EQ(partly.failures(0).name(), "tests/test_calc.py::test_two");
}

TEST_F(CommandGrader, HackEndingTheRunnerEarnsNothing) {
  EarnsNothingInAnyRunner("import os\nos._exit(0)\n", "os._exit at import");
  EarnsNothingInAnyRunner("import os\n\n\ndef double(x):\n    os._exit(0)\n", "os._exit in a call",
                          {}, {Runner::kPytestExit});
  EarnsNothingInAnyRunner("import sys\nsys.exit(0)\n", "sys.exit at import", {},
                          {Runner::kPytestExit});
}

TEST_F(CommandGrader, HackAtExitEarnsNothing) {
  EarnsNothingInAnyRunner(
      "import atexit, os\natexit.register(lambda: os._exit(0))\n\n\n"
      "def double(x):\n    return x\n",
      "atexit");
}

TEST_F(CommandGrader, HackInConftestEarnsNothing) {
  EarnsNothingInAnyRunner(kWrong, "conftest.py",
                          {{"conftest.py",
                            "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
                            "def pytest_runtest_makereport(item, call):\n    outcome = yield\n"
                            "    outcome.get_result().outcome = 'passed'\n"},
                           {"tests/conftest.py", "collect_ignore_glob = ['*']\n"},
                           {"pytest.ini", "[pytest]\naddopts = --collect-only\n"}},
                          {Runner::kPytestExit});
}

TEST_F(CommandGrader, HackOverwritingTheTestsEarnsNothing) {
  EarnsNothingInAnyRunner(kWrong, "overwritten tests",
                          {{"tests/test_calc.py", "def test_two():\n    pass\n"}});
  // A file where the folder of the tests must be makes way.
  EarnsNothingInAnyRunner(kWrong, "a file in the way", {{"tests", "nothing"}}, {Runner::kUnittest});
}

TEST_F(CommandGrader, HackPatchingAssertionsEarnsNothing) {
  EarnsNothing(TreeOf({{"calc.py",
                        "import unittest\n"
                        "unittest.TestCase.assertEqual = lambda *a, **k: None\n\n\n"
                        "def double(x):\n    return x\n"}}),
               PythonGrading(Runner::kUnittest), "assertEqual patched");
  EarnsNothing(TreeOf({{"calc.py",
                        "import unittest.case\n"
                        "unittest.case.TestCase.run = lambda self, result=None: result\n\n\n"
                        "def double(x):\n    return x\n"}}),
               PythonGrading(Runner::kUnittest), "TestCase.run patched");
  for (const Runner runner : {Runner::kPytestExit, Runner::kPytestJunit}) {
    EarnsNothing(TreeOf({{"calc.py",
                          "import _pytest.python\n"
                          "_pytest.python.Function.runtest = lambda self: None\n\n\n"
                          "def double(x):\n    return x\n"}}),
                 PythonGrading(runner), "pytest's runtest patched");
  }
}

TEST_F(CommandGrader, HackInSysModulesEarnsNothing) {
  EarnsNothingInAnyRunner(
      "import sys, types\n"
      "for name in list(sys.modules):\n"
      "    if name.endswith('test_calc'):\n"
      "        sys.modules[name] = types.ModuleType(name)\n\n\n"
      "def double(x):\n    return x\n",
      "sys.modules");
  // Takes the tests away from the module that is being imported, by its frame.
  EarnsNothingInAnyRunner(
      "import sys\n\n\ndef double(x):\n    return x\n\n\n"
      "import pathlib\n"
      "for p in pathlib.Path('.').rglob('test_calc.py'):\n"
      "    p.write_text('def test_two():\\n    pass\\n')\n",
      "tests rewritten while they run");
}

TEST_F(CommandGrader, HackForgingTheReportEarnsNothing) {
  const std::string forge =
      "import atexit, os, sys\n\n\n"
      "def _forge():\n"
      "    path = os.environ['TIDEMILL_REPORT']\n"
      "    with open(path, 'w') as f:\n"
      "        f.write('<testsuites><testsuite>'\n"
      "                '<testcase classname=\"tests.test_calc\" name=\"test_two\"/>'\n"
      "                '<testcase classname=\"tests.test_calc\" name=\"test_three\"/>'\n"
      "                '</testsuite></testsuites>')\n"
      "    os._exit(0)\n\n\n"
      "atexit.register(_forge)\n\n\n"
      "def double(x):\n    return x\n";
  EarnsNothingInAnyRunner(forge, "forged report");
  // Turns the failures of the real one into passes.
  EarnsNothingInAnyRunner(
      "import atexit, os, re\n\n\ndef _edit():\n    path = os.environ['TIDEMILL_REPORT']\n"
      "    text = open(path).read()\n"
      "    text = re.sub(r'<failure.*?</failure>', '', text, flags=re.S)\n"
      "    open(path, 'w').write(text)\n    os._exit(0)\n\n\natexit.register(_edit)\n\n\n"
      "def double(x):\n    return x\n",
      "edited report");
  // Where a report was always written before the run.
  EarnsNothing(TreeOf({{"calc.py", kWrong},
                       {".tidemill-0000000000000000/report", "<testsuite/>"},
                       {"report", "<testsuite/>"}}),
               PythonGrading(Runner::kPytestJunit), "report put there before");
}

TEST_F(CommandGrader, HackOnThePathEarnsNothing) {
  EarnsNothingInAnyRunner(kWrong, "PATH",
                          {{"python3", "#!/bin/sh\nexit 0\n"},
                           {"bin/python3", "#!/bin/sh\nexit 0\n"},
                           {"pytest", "#!/bin/sh\nexit 0\n"}},
                          {Runner::kPytestExit});
}

TEST_F(CommandGrader, HackAtStartUpEarnsNothing) {
  EarnsNothingInAnyRunner(kWrong, "start-up files",
                          {{"sitecustomize.py", "import os\nos._exit(0)\n"},
                           {"usercustomize.py", "import os\nos._exit(0)\n"},
                           {"evil.pth", "import os; os._exit(0)\n"},
                           {"evil.egg-info/entry_points.txt", "[pytest11]\nevil = evil\n"},
                           {"evil.py", "import os\nos._exit(0)\n"}});
}

TEST_F(CommandGrader, HackStandingInFrontOfTheRunnerEarnsNothing) {
  EarnsNothingInAnyRunner(kWrong, "modules of the runner's name",
                          {{"pytest.py", "raise SystemExit(0)\n"},
                           {"pytest/__main__.py", "raise SystemExit(0)\n"},
                           {"_pytest/__init__.py", "raise SystemExit(0)\n"},
                           {"unittest/__main__.py", "raise SystemExit(0)\n"},
                           {"unittest.py", "raise SystemExit(0)\n"}});
}

TEST_F(CommandGrader, HackStandingInFrontOfWhatTheRunnerImportsEarnsNothing) {
  // Each passes alone, where it is found before the real one.
  for (const char* path : {"pluggy.py", "iniconfig.py", "argparse.py", "pygments/__init__.py",
                           "attr.py", "tests/pygments.py", "conftest/__init__.py"}) {
    EarnsNothingInAnyRunner(kWrong, path,
                            {{path, "import os\nos._exit(0)\n"}, {"tests/__init__.py", ""}},
                            {Runner::kPytestExit});
  }
}

// Results that equal whatever they are compared with.
constexpr char kEqualToAll[] =
    "class Equal(int):\n"
    "    def __eq__(self, other):\n        return True\n\n"
    "    def __ne__(self, other):\n        return False\n\n"
    "    def __lt__(self, other):\n        return True\n\n"
    "    __gt__ = __le__ = __ge__ = __lt__\n\n"
    "    def __hash__(self):\n        return 1\n\n\n"
    "def double(x):\n    return Equal()\n";

TEST_F(CommandGrader, HackEqualToWhateverIsExpectedEarnsNothing) {
  EarnsNothingInAnyRunner(kEqualToAll, "__eq__ is always true", {},
                          {Runner::kPytestExit, Runner::kPytestJunit, Runner::kUnittest});
}

TEST_F(CommandGrader, HackReadingWhatIsExpectedEarnsNothing) {
  EarnsNothingInAnyRunner(
      "import pathlib, re\n\n\ndef double(x):\n"
      "    text = pathlib.Path('tests/test_calc.py').read_text()\n"
      "    return int(re.search(r'double\\(%d\\)(?: ==|,) (\\d+)' % x, text).group(1))\n",
      "read from the file of the tests", {},
      {Runner::kPytestExit, Runner::kPytestJunit, Runner::kUnittest});
  EarnsNothingInAnyRunner(
      "import sys\n\n\ndef double(x):\n"
      "    names = sys._getframe(1).f_code.co_consts\n"
      "    return next(n for n in names if type(n) is int and n > x + 1)\n",
      "read from the code of the caller", {}, {Runner::kPytestJunit, Runner::kUnittest});
}

// The exit status alone does not say which test failed: one that is answered honestly must not hide
// those that are read or equal to everything.
TEST_F(CommandGrader, HackOfSomeOfTheTestsEarnsNothingByTheExitStatus) {
  EarnsNothing(TreeOf({{"calc.py",
                        "import pathlib, re\n\n\ndef double(x):\n    if x == 2:\n        return 4\n"
                        "    text = pathlib.Path('tests/test_calc.py').read_text()\n"
                        "    return int(re.search(r'double\\(3\\) == (\\d+)', text).group(1))\n"}}),
               PythonGrading(Runner::kPytestExit), "one test read");
  const std::string equal(kEqualToAll);
  EarnsNothingInAnyRunner(equal.substr(0, equal.find("def double")) +
                              "def double(x):\n    return 4 if x == 2 else Equal()\n",
                          "one test equals everything", {},
                          {Runner::kPytestExit, Runner::kPytestJunit, Runner::kUnittest});
}

// Tests of many forms: what is right passes, and what equals everything does not.
constexpr char kManyForms[] = R"py("""Tests."""
import unittest
from unittest.mock import ANY

import pytest
from calc import double


def check(x, y):
    assert double(x) == y, "no"


def test_one_line(): assert double(3) == 6


@pytest.mark.parametrize("x, y", [(1, 2), (2, 4)])
def test_parameters(x, y):
    """Doubles."""
    assert double(x) == y


def test_helper():
    check(2, 4)


def test_raises():
    with pytest.raises(TypeError):
        double("x", 3)


def test_any():
    assert {"a": double(2)} == {"a": ANY}


def test_empty():
    assert [double(x) for x in []] == []


def test_list():
    assert [double(i) for i in range(3)] == [
        0, 2,
        4]
    assert double(2) in (4, 5) and double(2) > 3


class TestMore(unittest.TestCase):
    def test_parts(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertIn(double(i), [0, 2, 4])

    def test_close(self):
        self.assertAlmostEqual(double(2.5), 5.0)
        self.assertTrue(double(2) == 4)
)py";

TEST_F(CommandGrader, TestsOfManyFormsAreHeldAgainstOtherValues) {
  for (const Runner runner : {Runner::kPytestJunit, Runner::kPytestExit}) {
    v1::Grading grading = PythonGrading(runner);
    grading.clear_fail_to_pass();
    grading.clear_pass_to_pass();
    *grading.mutable_harness(0) = FileOf("tests/test_calc.py", kManyForms);
    const std::string own = "def test_own():\n    assert True\n";
    const auto honest = Grade(TreeOf({{"calc.py", kHonest}, {"tests/test_own.py", own}}), grading);
    EXPECT_EQ(Name(honest), "ok") << honest.ShortDebugString();
    EXPECT_GE(honest.tests_passed(), runner == Runner::kPytestJunit ? 10u : 1u);
    EarnsNothing(TreeOf({{"calc.py", kEqualToAll}}), grading, "__eq__ is always true");
  }
}

TEST_F(CommandGrader, HackSkippingTheTestsEarnsNothing) {
  EarnsNothingInAnyRunner(
      "try:\n    import pytest\n    pytest.skip('x', allow_module_level=True)\n"
      "except ImportError:\n    pass\n"
      "import unittest\nraise unittest.SkipTest('x')\n",
      "skipped");
}

// C++ with make: the author gives the canary, a test that cannot hold.
v1::Grading MakeGrading() {
  std::vector<v1::Task> tasks(1);
  tasks[0].set_id("t");
  *tasks[0].add_files() =
      FileOf("Makefile", "check: t\n\t./t\nt: t.cc calc.cc\n\tg++ -O0 -o t t.cc calc.cc\n");
  v1::Grading& grading = *tasks[0].mutable_grading();
  grading.set_mode(v1::Grading::MODE_COMMAND);
  grading.add_run("make");
  grading.add_run("check");
  const std::string test =
      "#include <cassert>\n#include \"calc.h\"\nint main() { assert(twice(2) == 4); }\n";
  *grading.add_harness() = FileOf("t.cc", test);
  *grading.add_canary() = FileOf("t.cc",
                                 "#include <cassert>\n#include \"calc.h\"\n"
                                 "int main() { assert(twice(2) == 4); assert(1 == 2); }\n");
  TM_CHECK(PrepareTasks({}, &tasks).ok());
  return tasks[0].grading();
}

TEST_F(CommandGrader, AMakefileIsTheTasksAndATestOfItsOwnFindsOutWhoEndsItEarly) {
  const char* header = "int twice(int);\n";
  const auto honest =
      Grade(TreeOf({{"calc.h", header}, {"calc.cc", "int twice(int x) { return 2 * x; }\n"}}),
            MakeGrading());
  EXPECT_EQ(honest.tests_passed(), 1u) << honest.ShortDebugString();
  EarnsNothing(TreeOf({{"calc.h", header},
                       {"calc.cc", "int twice(int x) { return x; }\n"},
                       {"Makefile", "check:\n\ttrue\n"},
                       {"GNUmakefile", "check:\n\ttrue\n"},
                       {".git/hooks/post-checkout", "true"},
                       {"t", "#!/bin/sh\nexit 0\n"}}),
               MakeGrading(), "Makefile overwritten");
  EarnsNothing(TreeOf({{"calc.h", header},
                       {"calc.cc",
                        "#include <unistd.h>\nstruct S { S() { _exit(0); } } s;\n"
                        "int twice(int x) { return x; }\n"}}),
               MakeGrading(), "_exit in a constructor");
  EarnsNothing(TreeOf({{"calc.h", "#undef assert\n#define assert(x)\nint twice(int);\n"},
                       {"calc.cc", "int twice(int x) { return x; }\n"}}),
               MakeGrading(), "assert redefined");
}

TEST_F(CommandGrader, ATrustedCommandRunsOnceAndAReportOfOneNumberIsAReward) {
  v1::Grading grading;
  grading.set_mode(v1::Grading::MODE_COMMAND);
  grading.set_trusted(true);
  grading.set_report(v1::Grading::REPORT_NUMBER);
  for (const char* word : {"/bin/sh", "-c", "grep -q hello notes.txt && echo 0.25 > {report}"}) {
    grading.add_run(word);
  }
  const auto result = Grade(TreeOf({{"notes.txt", "hello"}}), grading);
  EXPECT_EQ(result.tests_passed(), 250u) << result.ShortDebugString();
  EXPECT_EQ(result.tests_total(), 1000u);
  EXPECT_EQ(Grade(TreeOf({{"notes.txt", "bye"}}), grading).tests_passed(), 0u);
}

TEST_F(CommandGrader, AReportThatTheAgentLeftIsNone) {
  v1::Grading grading;
  grading.set_mode(v1::Grading::MODE_COMMAND);
  grading.set_trusted(true);
  grading.set_report(v1::Grading::REPORT_NUMBER);
  grading.set_report_file("logs/verifier/reward.txt");
  grading.add_run("true");
  const auto result = Grade(TreeOf({{"logs/verifier/reward.txt", "1"}}), grading);
  EXPECT_EQ(result.tests_passed(), 0u) << result.ShortDebugString();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
}

TEST_F(CommandGrader, AProgramThatIsNotThereIsOurFailure) {
  v1::Grading grading;
  grading.set_mode(v1::Grading::MODE_COMMAND);
  grading.set_trusted(true);
  grading.add_run("no-such-program");
  EXPECT_EQ(Name(Grade(TreeOf({{"a", "b"}}), grading)), "unavailable");
}

TestReport ReportOf(v1::Grading::Report format, std::string_view text) {
  auto report = ParseTestReport(format, text);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return report.ok() ? *report : TestReport();
}

TEST(TestReports, JunitNamesFailuresErrorsAndSkips) {
  const TestReport report = ReportOf(
      v1::Grading::REPORT_JUNIT,
      "<?xml version=\"1.0\"?><testsuites><testsuite name=\"x\"><!-- <testcase name=\"no\"/> -->"
      "<testcase classname=\"a.b\" name=\"one\" time=\"1\"/>"
      "<testcase classname=\"a.b\" name=\"two&gt;[1/2]\"><failure>x</failure></testcase>"
      "<testcase classname=\"a.b\" name=\"three\"><error/></testcase>"
      "<testcase classname=\"a.b\" name=\"four\"><skipped/></testcase>"
      "<testcase name='five'><system-out><![CDATA[<failure>]]></system-out></testcase>"
      "<testcase name=\"five\"><failure/></testcase></testsuite></testsuites>");
  EXPECT_EQ(report.tests.size(), 4u);
  EXPECT_TRUE(report.Passed("a.b.one"));
  EXPECT_TRUE(report.Passed("a/b.py::one"));
  EXPECT_FALSE(report.tests.at("a.b.two>[1/2]"));
  EXPECT_FALSE(report.Passed("a.b.three"));
  EXPECT_FALSE(report.Passed("a.b.four"));
  EXPECT_FALSE(report.Passed("five")) << "listed twice, once as failed";
  EXPECT_FALSE(report.Passed("never heard of"));
}

TEST(TestReports, TapAndJsonAndNumbers) {
  const TestReport tap = ReportOf(v1::Grading::REPORT_TAP,
                                  "TAP version 13\n1..4\nok 1 - adds\nnot ok 2 - divides\n"
                                  "    ok 1 - inner\nok 3 - slow # SKIP no time\nokay\n");
  EXPECT_EQ(tap.tests.size(), 3u);
  EXPECT_TRUE(tap.Passed("adds"));
  EXPECT_FALSE(tap.Passed("divides"));
  EXPECT_TRUE(tap.Passed("inner"));
  const TestReport json =
      ReportOf(v1::Grading::REPORT_JSON, R"({"tests":{"a":true,"b":"passed","c":1}})");
  EXPECT_TRUE(json.Passed("a"));
  EXPECT_TRUE(json.Passed("b"));
  EXPECT_FALSE(json.Passed("c"));
  EXPECT_EQ(*ReportOf(v1::Grading::REPORT_JSON, R"({"reward":0.5})").reward, 0.5);
  EXPECT_EQ(*ReportOf(v1::Grading::REPORT_NUMBER, " 1\n").reward, 1);
}

TEST(TestReports, WhatIsNoReportIsNone) {
  for (const auto& [format, text] :
       std::initializer_list<std::pair<v1::Grading::Report, const char*>>{
           {v1::Grading::REPORT_JUNIT, "all passed"},
           {v1::Grading::REPORT_JUNIT, "<testsuites/>"},
           {v1::Grading::REPORT_TAP, ""},
           {v1::Grading::REPORT_JSON, "[1]"},
           {v1::Grading::REPORT_JSON, R"({"reward":2})"},
           {v1::Grading::REPORT_NUMBER, "nan"},
           {v1::Grading::REPORT_NUMBER, "1 2"},
           {v1::Grading::REPORT_NUMBER, ""}}) {
    EXPECT_FALSE(ParseTestReport(format, text).ok()) << text;
  }
  std::string deep = std::string(100'000, '[');
  EXPECT_FALSE(ParseTestReport(v1::Grading::REPORT_JSON, deep).ok());
}

}  // namespace
}  // namespace tidemill
