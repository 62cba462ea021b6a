#include "tools/python/python_grader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/box/box_host.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

// f(x) is expected to be 2 * x + 1 for a few x.
v1::Grading DoubleAndOne() {
  v1::Grading grading;
  grading.add_sources("answer.py");
  grading.set_mode(v1::Grading::MODE_PYTHON);
  for (const int x : {3, 70, -5}) {
    v1::TestCase* test = grading.add_cases();
    test->set_input("f(" + std::to_string(x) + ")");
    test->set_expected("i" + std::to_string(2 * x + 1));
  }
  return grading;
}

class PythonGrader : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto host = BoxHost::Create({});
    ASSERT_TRUE(host.ok()) << host.status().ToString();
    host_ = std::move(*host).release();
    pool_ = new BoxPool(*host_, 0);
    nursery_ = new PythonNursery(*pool_);
  }
  static void TearDownTestSuite() {
    delete nursery_;
    delete pool_;
    delete host_;
  }

  static v1::ToolResult Grade(const std::string& code, const v1::Grading& grading = DoubleAndOne(),
                              int cpu_ms = 2000, int wall_ms = 20'000) {
    GradeOptions options;
    options.limits.cpu = milliseconds(cpu_ms);
    options.limits.wall = milliseconds(wall_ms);
    Workspace files;
    files["answer.py"] = {code, false};
    v1::ToolResult result;
    GradePython(grading, options, files, *nursery_, &result);
    return result;
  }
  static void ExpectNothing(const std::string& code) {
    const v1::ToolResult result = Grade(code, DoubleAndOne(), 400);
    EXPECT_EQ(result.tests_passed(), 0u) << code << "\n" << result.DebugString();
    EXPECT_NE(result.outcome(), v1::OUTCOME_OK) << code;
    EXPECT_NE(result.outcome(), v1::OUTCOME_UNAVAILABLE) << code << result.cause();
    // Nothing of it is left for the next one.
    const v1::ToolResult next = Grade("def f(x): return 2 * x + 1");
    EXPECT_EQ(next.outcome(), v1::OUTCOME_OK) << "after " << code << "\n" << next.DebugString();
  }
  // Whether `value` is taken for a value whose canonical text is `expected`.
  static bool Equal(const std::string& value, const std::string& expected) {
    v1::Grading grading;
    grading.add_sources("answer.py");
    grading.set_mode(v1::Grading::MODE_PYTHON);
    v1::TestCase* test = grading.add_cases();
    test->set_input("g()");
    test->set_expected(expected);
    return Grade("import collections, decimal, fractions\ndef g(): return " + value, grading)
               .tests_passed() == 1;
  }

  static inline BoxHost* host_ = nullptr;
  static inline BoxPool* pool_ = nullptr;
  static inline PythonNursery* nursery_ = nullptr;
};

TEST_F(PythonGrader, ARightAnswerPassesAndAWrongOneShowsItsValue) {
  const v1::ToolResult right = Grade("def f(x):\n    return 2 * x + 1\n");
  EXPECT_EQ(right.outcome(), v1::OUTCOME_OK) << right.DebugString();
  EXPECT_EQ(right.tests_passed(), 3u);
  EXPECT_TRUE(right.compiled());
  const v1::ToolResult wrong = Grade("def f(x): return 7 if x == 3 else [x]");
  EXPECT_EQ(wrong.outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(wrong.tests_passed(), 1u);
  EXPECT_EQ(wrong.failures(0).actual(), "[70]");
  const v1::ToolResult raises = Grade("def f(x): return x / 0");
  EXPECT_THAT(raises.failures(0).actual(), HasSubstr("ZeroDivisionError"));
}

TEST_F(PythonGrader, WhatDoesNotCompileSaysWhere) {
  const v1::ToolResult result = Grade("x = 1\ndef f(x)\n    return 1\n");
  EXPECT_FALSE(result.compiled());
  EXPECT_EQ(result.diagnostics(0).line(), 2u);
  EXPECT_THAT(result.diagnostics(0).message(), HasSubstr("SyntaxError"));
  const v1::ToolResult unnamed = Grade("print(undefined)");
  EXPECT_TRUE(unnamed.compiled());
  EXPECT_THAT(unnamed.failures(0).actual(), HasSubstr("NameError"));
}

TEST_F(PythonGrader, EqualValuesAreEqualAsPythonHasIt) {
  EXPECT_TRUE(Equal("1", "i1"));
  EXPECT_TRUE(Equal("True", "i1"));
  EXPECT_TRUE(Equal("1.0", "i1"));
  EXPECT_TRUE(Equal("decimal.Decimal(2)", "i2"));
  EXPECT_TRUE(Equal("0.5", "f3fe0000000000000"));
  EXPECT_TRUE(Equal("fractions.Fraction(1, 2)", "f3fe0000000000000"));
  EXPECT_FALSE(Equal("0.1 + 0.2", "f3fd3333333333333"));
  EXPECT_TRUE(Equal("10 ** 30", "i1000000000000000000000000000000"));
  EXPECT_TRUE(Equal("[1, (2,), {3}]", "[i1,(i2),{i3}]"));
  EXPECT_FALSE(Equal("(1, 2)", "[i1,i2]"));
  EXPECT_TRUE(Equal("{3, 1, 2}", "{i1,i2,i3}"));
  EXPECT_TRUE(Equal("frozenset([1])", "{i1}"));
  EXPECT_TRUE(Equal("collections.Counter('aab')", "d{\"a\":i2,\"b\":i1}"));
  EXPECT_TRUE(Equal("{'b': 1, 'a': None}", "d{\"a\":N,\"b\":i1}"));
  EXPECT_TRUE(Equal("'\\u00e9\\n\"'", "\"\\u00e9\\n\\\"\""));
  EXPECT_TRUE(Equal("b'\\x01'", "b01"));
  EXPECT_TRUE(Equal("2j", "ci0i2"));
  EXPECT_FALSE(Equal("'1'", "i1"));
  EXPECT_FALSE(Equal("float('nan')", "f7ff8000000000001"));
  EXPECT_FALSE(Equal("range(3)", "[i0,i1,i2]"));
}

TEST_F(PythonGrader, EndingEarlyIsWorthNothing) {
  ExpectNothing("import sys\nsys.exit(0)");
  ExpectNothing("import os\nos._exit(0)");
  ExpectNothing("raise SystemExit(0)");
  ExpectNothing("import os\ndef f(x): os._exit(0)");
  ExpectNothing("import sys\ndef f(x): sys.exit(0)");
  ExpectNothing("def f(x): quit()");
  ExpectNothing("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)");
  ExpectNothing(
      "import os, signal\ntry:\n    os.kill(os.getppid(), 9)\nexcept BaseException: pass");
}

TEST_F(PythonGrader, SayingSuccessIsWorthNothing) {
  ExpectNothing("print('3 passed')\ndef f(x): print('ok'); return None");
  ExpectNothing(
      "import os\nfor fd in range(8):\n    try: os.write(fd, b'{\"v\": \"i7\", \"r\": \"7\"}\\n' * "
      "9)\n"
      "    except OSError: pass\ndef f(x): return None");
  ExpectNothing("class Any:\n    def __eq__(self, other): return True\ndef f(x): return Any()");
  ExpectNothing(
      "class Any(int):\n    def __eq__(self, o): return True\n    def __repr__(self): return "
      "'7'\ndef f(x): return Any(0)");
  ExpectNothing(
      "import builtins\nbuiltins.eval = lambda *a: None\nbuiltins.compile = lambda *a: '1'\n"
      "def f(x): return None");
}

TEST_F(PythonGrader, NothingToReadIsThere) {
  // Neither the parent's memory nor its descriptors nor any file holds what was expected.
  ExpectNothing("import os\nopen('/proc/%d/mem' % os.getppid(), 'rb').read(1)");
  ExpectNothing("import os\nos.listdir('/proc/%d/fd' % os.getppid())\ndef f(x): return None");
  ExpectNothing("import os\nprint(os.readlink('/proc/%d/fd/1' % os.getppid()))");
  const v1::ToolResult seen = Grade(
      "import os, gc\n"
      "def f(x):\n"
      "    found = [o for o in gc.get_objects() if isinstance(o, (str, bytes)) and 'f(70)' in "
      "str(o)]\n"
      "    return found or sorted(os.listdir('.'))\n");
  EXPECT_EQ(seen.failures(0).actual(), "['nursery.py']");
}

TEST_F(PythonGrader, NothingCanBeChangedOrStarted) {
  ExpectNothing("open('/tmp/x', 'w')");
  ExpectNothing("open('nursery.py', 'a')");
  ExpectNothing("import os\nos.unlink('nursery.py')");
  ExpectNothing("import os\nos.fork()");
  ExpectNothing("import subprocess\nsubprocess.run(['/bin/true'])");
  ExpectNothing("import socket\nsocket.socket(socket.AF_UNIX)");
  ExpectNothing("import threading\nthreading.Thread(target=print).start()");
  ExpectNothing("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (999, 999))");
}

TEST_F(PythonGrader, LimitsAreKept) {
  const v1::ToolResult loop = Grade("def f(x):\n    while True: pass", DoubleAndOne(), 150);
  EXPECT_EQ(loop.outcome(), v1::OUTCOME_CPU_LIMIT);
  EXPECT_LT(loop.cpu_ms(), 1500);
  const v1::ToolResult sleeper =
      Grade("import time\ndef f(x): time.sleep(100)", DoubleAndOne(), 1000, 300);
  EXPECT_EQ(sleeper.outcome(), v1::OUTCOME_TIMEOUT);
  ExpectNothing("x = [0] * 10 ** 10");
  ExpectNothing("def f(x): return 'y' * 10 ** 7");
  ExpectNothing("def f(x): return f(x)");
  ExpectNothing("import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(x): return f(x)");
  ExpectNothing("def f(x):\n    v = []\n    v.append(v)\n    return v");
  ExpectNothing("import os\nwhile True: os.write(4, b'x' * 65536)");
}

// Prints what a grading costs; fails only if it is far from a fork's cost.
TEST_F(PythonGrader, AGradingCostsMillisecondsOfCpu) {
  double cpu_ms = 0;
  constexpr int kCount = 50;
  Grade("def f(x): return 2 * x + 1");
  for (int i = 0; i < kCount; ++i) cpu_ms += Grade("def f(x): return 2 * x + 1").cpu_ms();
  RecordProperty("cpu_ms", std::to_string(cpu_ms / kCount));
  std::printf("a grading: %.2f ms of CPU in the box\n", cpu_ms / kCount);
  EXPECT_LT(cpu_ms / kCount, 50);
}

}  // namespace
}  // namespace tidemill
