#include "testbeds/pyfunc.h"

#include <gtest/gtest.h>

#include <set>

#include "tasks/import/python_literal.h"
#include "testbeds/pyfunc_ops.h"

namespace tidemill {
namespace {

std::set<uint64_t> Behaviours(const std::vector<PyfuncTask>& tasks) {
  std::set<uint64_t> out;
  for (const PyfuncTask& task : tasks) out.insert(task.behaviour);
  return out;
}

TEST(Pyfunc, SplitsShareNoBehaviourWhateverTheSeeds) {
  const auto train = GeneratePyfunc({.count = 2000, .seed = 1}).value();
  const auto heldout = GeneratePyfunc({.count = 300, .seed = 2, .heldout = true}).value();
  const std::set<uint64_t> a = Behaviours(train), b = Behaviours(heldout);
  EXPECT_EQ(a.size(), 2000u);
  EXPECT_EQ(b.size(), 300u);
  for (const uint64_t behaviour : b) EXPECT_FALSE(a.contains(behaviour));
}

TEST(Pyfunc, ASeedGivesTheSameTasksAndAnotherOthers) {
  const auto once = GeneratePyfunc({.count = 50, .seed = 7}).value();
  const auto again = GeneratePyfunc({.count = 50, .seed = 7}).value();
  const auto other = GeneratePyfunc({.count = 50, .seed = 8}).value();
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].imported.task.SerializeAsString(),
              again[i].imported.task.SerializeAsString());
  }
  EXPECT_NE(once[0].imported.task.prompt(), other[0].imported.task.prompt());
}

TEST(Pyfunc, OneTestIsShownAndSevenAreGraded) {
  for (const PyfuncTask& one : GeneratePyfunc({.count = 200, .seed = 3}).value()) {
    const v1::Task& task = one.imported.task;
    ASSERT_EQ(task.grading().cases_size(), 7);
    ASSERT_EQ(task.examples().cases_size(), 1);
    EXPECT_NE(task.prompt().find(task.examples().cases(0).name()), std::string::npos);
    for (int i = 1; i < 7; ++i) {
      EXPECT_EQ(task.prompt().find(task.grading().cases(i).input()), std::string::npos);
    }
  }
}

TEST(Pyfunc, OperationsDoWhatTheySay) {
  const PyfuncValue list = std::vector<int64_t>{3, -4, 3, 8};
  const auto apply = [&](std::string_view words, int64_t constant, const PyfuncValue& value) {
    for (const auto& ops : {ListSteps(), ListEndings(), TextSteps(), TextEndings()}) {
      for (const PyfuncOp& op : ops) {
        if (op.words == words) return PyfuncLiteral(op.apply(value, constant));
      }
    }
    return std::string("no such operation");
  };
  EXPECT_EQ(apply("replace every number by its remainder when divided by {}", 3, list),
            "[0, 2, 0, 2]");
  EXPECT_EQ(apply("remove repeated numbers and keep the first of each", 0, list), "[3, -4, 8]");
  EXPECT_EQ(apply("replace every number by the sum of all numbers up to and including it", 0, list),
            "[3, -1, 2, 10]");
  EXPECT_EQ(apply("drop the first {} numbers", 9, list), "[]");
  EXPECT_EQ(apply("whether the result contains the number {}", 8, list), "True");
  const PyfuncValue text = std::string("aB cde");
  EXPECT_EQ(apply("swap upper and lower case", 0, text), "'Ab CDE'");
  EXPECT_EQ(apply("the list of words in the result", 0, text), "['aB', 'cde']");
  EXPECT_EQ(
      apply("take every character whose position is a multiple of {}, counting from 0", 2, text),
      "'a d'");
}

}  // namespace
}  // namespace tidemill
