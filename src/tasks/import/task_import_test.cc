#include "tasks/import/task_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/files.h"
#include "tasks/import/python_literal.h"
#include "tasks/task_file.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PythonLiteral, EqualValuesHaveEqualTexts) {
  const std::pair<const char*, const char*> cases[] = {
      {"1", "i1"},
      {"True", "i1"},
      {"1.0", "i1"},
      {"-0", "i0"},
      {"-0.0", "i0"},
      {"+7", "i7"},
      {"1_000", "i1000"},
      {"0x1F", "i31"},
      {"1e3", "i1000"},
      {"1e22", "i10000000000000000000000"},
      {"123456789012345678901234567890", "i123456789012345678901234567890"},
      {"0.5", "f3fe0000000000000"},
      {"-2.5e-3", "fbf647ae147ae147b"},
      {"None", "N"},
      {"[]", "[]"},
      {"()", "()"},
      {"(1)", "i1"},
      {"(1,)", "(i1)"},
      {"[1, (2, 'x'), {}]", "[i1,(i2,\"x\"),d{}]"},
      {"{3, 1, 1.0}", "{i1,i3}"},
      {"set()", "{}"},
      {"{'b': 1, 'a': [2]}", "d{\"a\":[i2],\"b\":i1}"},
      {"'it''s'", "\"its\""},
      {"\"a\\n\\x41\\u00e9\\101\"", "\"a\\nA\\u00e9A\""},
      {"'\\0'", "\"\\u0000\""},
      {"r'\\d'", "\"\\\\d\""},
      {"b'\\x00a'", "b0061"},
      {"'''x\ny'''", "\"x\\ny\""},
      {"2j", "ci0i2"},
      {"(1-2j)", "ci1i-2"},
  };
  for (const auto& [python, text] : cases) {
    const auto got = CanonicalLiteral(python);
    EXPECT_TRUE(got.ok()) << python << ": " << got.status().message();
    EXPECT_EQ(got.ok() ? *got : "", text) << python;
  }
}

TEST(PythonLiteral, WhatIsNoLiteralIsRefused) {
  for (const char* python : {"", "f(1)", "[1", "[1 2]", "1 +", "1 + 2", "x", "'a", "{1: 2, 3}",
                             "--", "f'x'", "'\\u12'", "0x", "1.2.3", "[1,,2]", "(,)", "1 2"}) {
    EXPECT_FALSE(CanonicalLiteral(python).ok()) << python;
  }
  EXPECT_FALSE(CanonicalLiteral(std::string(5000, '[') + std::string(5000, ']')).ok());
}

TEST(PythonAssertionTest, IsACallAndItsValue) {
  const auto plain = ParseAssertion("assert f([1, '=='], x=3) == {'a': 1}").value();
  EXPECT_EQ(plain.expression, "f([1, '=='], x=3)");
  EXPECT_EQ(plain.literal, "{'a': 1}");
  EXPECT_EQ(plain.expected, "d{\"a\":i1}");
  EXPECT_EQ(ParseAssertion("assert  f(1)==True ").value().expected, "i1");
  EXPECT_EQ(ParseAssertion("assert f(1) == (1, 2), 'why'").value().expected, "(i1,i2)");
  EXPECT_THAT(ParseAssertion("assert f(1)").status().message(), HasSubstr("=="));
  EXPECT_THAT(ParseAssertion("assert f(1) == g(1)").status().message(), HasSubstr("is a name"));
  EXPECT_FALSE(ParseAssertion("x = 1 == 1").ok());
}

class TaskImport : public testing::Test {
 protected:
  Result<ImportedTasks> Import(const std::string& format, const std::string& rows,
                               const std::string& split = "") {
    const std::string path = directory_ / "rows.jsonl";
    EXPECT_TRUE(WriteFileAtomically(path, rows).ok());
    return ImportTasks(format, path, {.split = split});
  }
  TemporaryDirectory directory_;
};

constexpr char kMbppRow[] =
    R"({"text": "Add one.", "code": "def f(x):\r\n  return x + 1", "task_id": 601,)"
    R"( "test_setup_code": "", "test_list": ["assert f(1) == 2", "assert f(4) == 5"],)"
    R"( "challenge_test_list": []})";

TEST_F(TaskImport, OneAssertionIsShownAndAllAreGraded) {
  const auto imported = Import("mbpp", kMbppRow);
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  const v1::Task& task = imported->tasks.at(0).task;
  EXPECT_EQ(task.id(), "mbpp-601");
  EXPECT_EQ(task.prompt(), "Add one.\nYour code should pass this test:\nassert f(1) == 2");
  EXPECT_EQ(task.grading().cases_size(), 2);
  EXPECT_EQ(task.grading().cases(1).input(), "f(4)");
  EXPECT_EQ(task.grading().cases(1).expected(), "i5");
  EXPECT_EQ(task.grading().cases(1).name(), "");  // the hidden ones have no name to leak
  EXPECT_EQ(task.examples().cases_size(), 1);
  EXPECT_EQ(imported->tasks[0].solution, "def f(x):\n  return x + 1");
  // And it is a task like any other.
  const std::string path = directory_ / "tasks.jsonl";
  ASSERT_TRUE(WriteTaskFile(path, {task}).ok());
  const auto back = ReadTaskFile(path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->at(0).SerializeAsString(), task.SerializeAsString());
}

TEST_F(TaskImport, SplitsAreTheAuthors) {
  EXPECT_TRUE(Import("mbpp", kMbppRow, "train").ok());
  EXPECT_THAT(Import("mbpp", kMbppRow, "test").status().message(),
              HasSubstr("no task of the split test"));
  EXPECT_THAT(Import("pyfunc", "{}", "prompt").status().message(),
              HasSubstr("pyfunc has the splits train and test"));
}

TEST_F(TaskImport, AnUnknownOrMissingFieldIsNamed) {
  EXPECT_THAT(Import("mbpp", R"({"task_id": 1, "text": "x", "test_lst": []})").status().message(),
              HasSubstr("rows.jsonl:1: test_list: is missing"));
  EXPECT_THAT(
      Import("mbpp", R"({"task_id": 1, "text": "x", "test_list": ["assert f() == 1"], "cod": ""})")
          .status()
          .message(),
      HasSubstr("rows.jsonl:1: cod: unknown field"));
  EXPECT_THAT(Import("mbpp", "[1]").status().message(), HasSubstr("rows.jsonl:1"));
  EXPECT_THAT(Import("nosuch", "{}").status().message(), HasSubstr("\"nosuch\""));
}

TEST_F(TaskImport, WhatCannotBeGradedIsSkippedByName) {
  const auto imported =
      Import("mbpp", std::string(kMbppRow) + "\n" +
                         R"({"task_id": 602, "text": "x", "test_list": ["assert f() > 1"]})");
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->tasks.size(), 1u);
  ASSERT_EQ(imported->skipped.size(), 1u);
  EXPECT_THAT(imported->skipped[0], HasSubstr("mbpp-602: assert f() > 1"));
}

TEST_F(TaskImport, HumanEvalsChecksAreTakenApart) {
  const auto imported = Import(
      "humaneval",
      R"({"task_id": "HumanEval/0", "prompt": "def add(a, b):\n", "entry_point": "add",)"
      R"( "canonical_solution": "    return a + b\n",)"
      R"( "test": "METADATA = {}\n\n\ndef check(candidate):\n    assert candidate(1, 2) == 3\n)"
      R"(    assert candidate([1,\n        2], []) == [1, 2], \"list\"\n    assert True, \"x\"\n"})"
      "\n"
      R"({"task_id": "HumanEval/1", "prompt": "def g():\n", "entry_point": "g",)"
      R"( "test": "def check(candidate):\n    for i in range(3):\n        assert candidate() == i\n"})");
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  ASSERT_EQ(imported->tasks.size(), 1u);
  const v1::Grading& grading = imported->tasks[0].task.grading();
  ASSERT_EQ(grading.cases_size(), 2);
  EXPECT_EQ(grading.cases(1).input(), "add([1, 2], [])");
  EXPECT_EQ(grading.cases(1).expected(), "[i1,i2]");
  EXPECT_THAT(imported->skipped, ElementsAre(HasSubstr("HumanEval-1: check() has the statement")));
}

// Whatever a row has is the environment's; no field is unknown.
TEST_F(TaskImport, RowsOfEnvironmentsAreKeptAsTheyAre) {
  const std::string row =
      R"({"responses_create_params": {"input": [{"role": "user", "content": "cold?"}]}, "x": [1]})";
  const auto gym = Import("nemo-gym", row);
  ASSERT_TRUE(gym.ok()) << gym.status().message();
  const v1::Task& task = gym->tasks.at(0).task;
  EXPECT_EQ(task.id(), "nemo-gym-1");
  EXPECT_EQ(task.prompt(), "cold?");
  EXPECT_EQ(nlohmann::json::parse(task.environment().row_json()), nlohmann::json::parse(row));
  EXPECT_EQ(task.weights(0).scorer(), "environment");
  const auto other = Import("verifiers", R"({"id": "a", "prompt": "Say it.", "answer": "it"})");
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ(other->tasks.at(0).task.id(), "verifiers-a");
  EXPECT_EQ(other->tasks.at(0).task.prompt(), "Say it.");
  EXPECT_THAT(Import("verifiers", "[1]").status().message(), HasSubstr("rows.jsonl:1"));
}

}  // namespace
}  // namespace tidemill
