#include "testbeds/cfunc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tasks/task_file.h"
#include "testbeds/cfunc_expr.h"
#include "testbeds/cfunc_task.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

std::vector<CfuncProblem> Generate(uint64_t count, uint64_t seed, CfuncSplit split) {
  CfuncOptions options;
  options.count = count;
  options.seed = seed;
  options.split = split;
  auto problems = GenerateCfunc(options);
  EXPECT_TRUE(problems.ok()) << problems.status().message();
  return std::move(problems).value();
}

Expr Leaf(char op, int value = 0) {
  return Expr{.op = op, .value = value, .operands = {}};
}

Expr Node(char op, std::vector<Expr> operands) {
  return Expr{.op = op, .value = 0, .operands = std::move(operands)};
}

TEST(CfuncExpr, WritesNoMoreParenthesesThanCNeeds) {
  const Expr a = Leaf('a'), b = Leaf('b'), two = Leaf('n', 2);
  EXPECT_EQ(ExprText(Node('*', {a, Node('+', {b, two})})), "a*(b+2)");
  EXPECT_EQ(ExprText(Node('+', {a, Node('*', {b, two})})), "a+b*2");
  EXPECT_EQ(ExprText(Node('-', {a, Node('-', {b, two})})), "a-(b-2)");
  EXPECT_EQ(ExprText(Node('-', {Node('-', {a, b}), two})), "a-b-2");
  EXPECT_EQ(ExprText(Node('?', {a, two, b, Node('+', {a, b})})), "a<2?b:a+b");
}

// The compiler is the reference: what Eval says, C must say of the text.
TEST(CfuncExpr, EvaluatesAsTheCompilerDoes) {
  const uint64_t seed = 20;
  Random random(seed);
  std::ostringstream source;
  source << "#include <stdio.h>\n";
  std::vector<Expr> exprs;
  for (int i = 0; i < 300; ++i) {
    Expr expr = DrawExpr(kCfuncLevelMin + i % kCfuncLevelMax, random);
    if (i % 2 == 1) expr = MutateExpr(expr, random);
    source << "int f" << i << "(int a,int b){return " << ExprText(expr) << ";}\n";
    exprs.push_back(std::move(expr));
  }
  source << "int main(void){int a,b;for(a=-20;a<=20;a+=8)for(b=-20;b<=20;b+=5){\n";
  for (size_t i = 0; i < exprs.size(); ++i) source << "printf(\"%d\\n\",f" << i << "(a,b));\n";
  source << "}return 0;}\n";
  const TemporaryDirectory directory;
  const std::string path = directory / "expressions.c";
  std::ofstream(path) << source.str();
  FILE* output = popen(("tcc -run " + path).c_str(), "r");
  ASSERT_NE(output, nullptr);
  for (int a = -20; a <= 20; a += 8) {
    for (int b = -20; b <= 20; b += 5) {
      for (const Expr& expr : exprs) {
        int value = 0;
        ASSERT_EQ(std::fscanf(output, "%d", &value), 1) << "is tcc there? " << path;
        ASSERT_EQ(EvalExpr(expr, a, b), value) << ExprText(expr) << " of " << a << ", " << b;
      }
    }
  }
  EXPECT_EQ(pclose(output), 0);
}

TEST(CfuncExpr, BehaviourTellsFunctionsApartAndNotTheirText) {
  const Expr a = Leaf('a'), b = Leaf('b');
  EXPECT_EQ(BehaviourOf(Node('+', {a, b})), BehaviourOf(Node('+', {b, a})));
  EXPECT_EQ(BehaviourOf(Node('+', {a, a})), BehaviourOf(Node('*', {a, Leaf('n', 2)})));
  EXPECT_NE(BehaviourOf(Node('+', {a, b})), BehaviourOf(Node('-', {a, b})));
  // Differ on b == 4 alone.
  EXPECT_NE(BehaviourOf(Node('?', {b, Leaf('n', 5), a, b})),
            BehaviourOf(Node('?', {b, Leaf('n', 4), a, b})));
  EXPECT_EQ(CfuncProbes().size(), static_cast<size_t>(kCfuncProbeCount));
}

TEST(Cfunc, TrainingAndHeldOutTasksShareNoBehaviour) {
  std::set<uint64_t> train;
  for (const uint64_t seed : {1, 2}) {
    for (const CfuncProblem& p : Generate(3000, seed, CfuncSplit::kTrain))
      train.insert(p.behaviour);
  }
  const std::vector<CfuncProblem> held = Generate(300, 3, CfuncSplit::kHeldout);
  std::set<uint64_t> distinct;
  for (const CfuncProblem& problem : held) {
    EXPECT_FALSE(train.contains(problem.behaviour)) << ExprText(problem.expr);
    EXPECT_EQ(problem.behaviour, BehaviourOf(problem.expr));
    distinct.insert(problem.behaviour);
  }
  EXPECT_GE(distinct.size(), 250u);  // repeats only where a level has no more
}

TEST(Cfunc, TheSameSeedGivesTheSameTasksAndAnotherOthers) {
  const auto texts = [](uint64_t seed) {
    std::string all;
    for (const CfuncProblem& p : Generate(50, seed, CfuncSplit::kTrain)) {
      all += CfuncPrompt(p) + ExprText(p.expr);
    }
    return all;
  };
  EXPECT_EQ(texts(7), texts(7));
  EXPECT_NE(texts(7), texts(8));
}

TEST(Cfunc, ExamplesAreRightDistinctAndShowable) {
  for (const CfuncProblem& problem : Generate(500, 4, CfuncSplit::kTrain)) {
    ASSERT_EQ(problem.shown.size(), static_cast<size_t>(kCfuncShown));
    ASSERT_EQ(problem.further.size(), static_cast<size_t>(kCfuncFurther));
    ASSERT_EQ(problem.hidden.size(), static_cast<size_t>(kCfuncHidden));
    std::set<std::pair<int, int>> inputs;
    for (const auto* examples : {&problem.shown, &problem.further}) {
      for (const CfuncExample& example : *examples) {
        EXPECT_TRUE(inputs.insert({example.a, example.b}).second) << CfuncPrompt(problem);
        EXPECT_EQ(example.value, EvalExpr(problem.expr, example.a, example.b));
        EXPECT_LE(std::abs(example.value), kCfuncOutputMax);
      }
    }
  }
}

TEST(Cfunc, LevelsComeInTheSharesAskedFor) {
  CfuncOptions options;
  options.count = 100;
  options.level_weights = {0, 1, 0, 3};
  const auto problems = GenerateCfunc(options);
  ASSERT_TRUE(problems.ok());
  std::map<int, int> levels;
  for (const CfuncProblem& problem : *problems) ++levels[problem.level];
  EXPECT_EQ(levels, (std::map<int, int>{{2, 25}, {4, 75}}));
}

TEST(Cfunc, MoreTasksThanBehavioursRepeatWithOtherExamples) {
  CfuncOptions options;
  options.count = 400;
  options.level_weights = {1};
  const auto problems = GenerateCfunc(options);
  ASSERT_TRUE(problems.ok());
  std::set<std::string> prompts;
  for (const CfuncProblem& problem : *problems) prompts.insert(CfuncPrompt(problem));
  EXPECT_GT(prompts.size(), 380u);
}

TEST(Cfunc, RefusesOptionsNoSetCanMeet) {
  CfuncOptions options;
  EXPECT_THAT(GenerateCfunc(options).status().message(), HasSubstr("count must be from 1"));
  options.count = 1;
  options.level_weights = {0, 0};
  EXPECT_THAT(GenerateCfunc(options).status().message(), HasSubstr("must not all be 0"));
  options.level_weights = {-1};
  EXPECT_EQ(GenerateCfunc(options).status().code(), Code::kInvalid);
  options.level_weights.assign(kCfuncLevelMax + 1, 1.0);
  EXPECT_EQ(GenerateCfunc(options).status().code(), Code::kInvalid);
}

TEST(Cfunc, DemonstrationsEndInTheRightAnswer) {
  const std::vector<CfuncProblem> problems = Generate(400, 5, CfuncSplit::kTrain);
  const auto demonstrations = DemonstrateCfunc(problems, {.second_turn_share = 0.5}, 1);
  ASSERT_EQ(demonstrations.size(), problems.size());
  int corrected = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    const Demonstration& one = demonstrations[i];
    EXPECT_EQ(one.completion, ExprText(problems[i].expr) + kCfuncEnd);
    EXPECT_EQ(one.prompt.rfind(CfuncPrompt(problems[i]), 0), 0u);
    EXPECT_TRUE(one.prompt.ends_with(kCfuncReturn));
    corrected += one.prompt.find(kCfuncFail) != std::string::npos;
  }
  EXPECT_GT(corrected, 120);
  EXPECT_LT(corrected, 280);
}

TEST(Cfunc, AuthorsWhoSlipAreWrongAboutAsOftenAsAsked) {
  const std::vector<CfuncProblem> problems = Generate(400, 5, CfuncSplit::kTrain);
  const auto demonstrations = DemonstrateCfunc(problems, {.slip_share = 0.25}, 1);
  int wrong = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    wrong += demonstrations[i].completion != ExprText(problems[i].expr) + kCfuncEnd;
    EXPECT_TRUE(demonstrations[i].completion.ends_with(kCfuncEnd));
  }
  EXPECT_GT(wrong, 60);
  EXPECT_LT(wrong, 140);
}

TEST(CfuncTask, IsAGoodTaskWhoseFirstFailureBringsNews) {
  const std::vector<CfuncProblem> problems = Generate(20, 6, CfuncSplit::kHeldout);
  CfuncOptions options;
  options.seed = 6;
  options.split = CfuncSplit::kHeldout;
  std::string lines;
  for (const v1::Task& task : CfuncTasks(problems, options)) lines += TaskToJsonLine(task) + "\n";
  std::istringstream input(lines);
  const TaskFileContents contents = ParseTasks(input, "generated");
  EXPECT_TRUE(contents.errors.empty()) << contents.errors[0];
  ASSERT_EQ(contents.tasks.size(), 20u);
  const v1::Task& task = contents.tasks[0];
  EXPECT_EQ(task.id(), "cfunc-heldout-6-0");
  EXPECT_EQ(task.grading().cases_size(), kCfuncHidden);
  ASSERT_EQ(task.examples().cases_size(), kCfuncShown + kCfuncFurther);
  EXPECT_EQ(task.prompt().find(task.examples().cases(0).name()), std::string::npos);
  EXPECT_NE(task.prompt().find(task.examples().cases(kCfuncFurther + kCfuncCommon).name()),
            std::string::npos);
}

}  // namespace
}  // namespace tidemill
