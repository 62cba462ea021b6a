#include "tasks/cfunc_task.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tasks/line_file.h"

namespace tidemill {
namespace {

constexpr char kAnswerFile[] = "f.c";

// Answers each line before it reads the next, so that no input is known before its time. What it
// needs of the C library is declared here: reading the headers would take a third of the exam.
constexpr char kMain[] = R"(int scanf(const char*, ...);
int printf(const char*, ...);
int fflush(void*);
int f(int a, int b);
int main(void) {
  int a, b;
  while (scanf("%d %d", &a, &b) == 2) {
    printf("%d\n", f(a, b));
    fflush(0);
  }
  return 0;
}
)";

void AddCases(const std::vector<CfuncExample>& examples, bool named, v1::Grading& grading) {
  for (const CfuncExample& example : examples) {
    v1::TestCase& test = *grading.add_cases();
    if (named) test.set_name(CfuncExampleText(example));
    test.set_input(std::to_string(example.a) + " " + std::to_string(example.b));
    test.set_expected(std::to_string(example.value));
  }
}

v1::Grading EmptyGrading() {
  v1::Grading grading;
  grading.add_sources(kAnswerFile);
  v1::File& harness = *grading.add_harness();
  harness.set_path("main.c");
  harness.set_content(kMain);
  harness.set_has_content(true);
  // Compiled and run by one process, at half of the price of two.
  for (const char* word : {"tcc", kAnswerFile, "-run", "main.c"}) grading.add_run(word);
  grading.set_compare(v1::Grading::COMPARE_TRIMMED);
  grading.set_mode(v1::Grading::MODE_LINES);
  grading.mutable_limits()->set_wall_ms(2000);
  grading.mutable_limits()->set_cpu_ms(1000);
  grading.mutable_limits()->set_memory_mb(64);
  return grading;
}

}  // namespace

v1::Task CfuncTask(const CfuncProblem& problem, const std::string& id) {
  v1::Task task;
  task.set_id(id);
  task.set_prompt(CfuncPrompt(problem));
  task.set_answer_file(kAnswerFile);
  task.set_answer_prefix("int f(int a, int b) {\n  return ");
  task.set_answer_suffix(";\n}\n");
  task.add_tags("cfunc");
  task.add_tags("level" + std::to_string(problem.level));
  task.set_difficulty(problem.level);
  *task.mutable_grading() = EmptyGrading();
  v1::Specification& specification = *task.mutable_grading()->mutable_specification();
  specification.set_source(task.answer_prefix() + ExprText(problem.expr) + task.answer_suffix());
  specification.set_function("f");
  specification.set_low(-kCfuncHiddenBound);
  specification.set_high(kCfuncHiddenBound);
  *task.mutable_examples() = EmptyGrading();
  AddCases(problem.hidden, false, *task.mutable_grading());
  AddCases(problem.further, true, *task.mutable_examples());
  AddCases(problem.shown, true, *task.mutable_examples());
  return task;
}

bool TestsCallF(const v1::Grading& grading) {
  static const v1::Grading kFamily = EmptyGrading();
  const auto same = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  return grading.mode() == kFamily.mode() && grading.harness_size() == 1 &&
         grading.harness(0).path() == kFamily.harness(0).path() &&
         grading.harness(0).content() == kFamily.harness(0).content() &&
         same(grading.sources(), kFamily.sources()) && same(grading.build(), kFamily.build()) &&
         same(grading.run(), kFamily.run());
}

std::vector<v1::Task> CfuncTasks(const std::vector<CfuncProblem>& problems,
                                 const CfuncOptions& options) {
  const std::string start = std::string("cfunc-") +
                            (options.split == CfuncSplit::kTrain ? "train-" : "heldout-") +
                            std::to_string(options.seed) + "-";
  std::vector<v1::Task> tasks;
  tasks.reserve(problems.size());
  for (const CfuncProblem& problem : problems) {
    tasks.push_back(CfuncTask(problem, start + std::to_string(tasks.size())));
  }
  return tasks;
}

Status WriteDemonstrations(const std::string& path,
                           const std::vector<CfuncDemonstration>& demonstrations) {
  return WriteLines(path, demonstrations.size(), [&](size_t i) {
    nlohmann::ordered_json line;
    line["prompt"] = demonstrations[i].prompt;
    line["completion"] = demonstrations[i].completion;
    line["special"] = true;  // <|end|> and <|fail|> are meant as tokens
    return line.dump();
  });
}

}  // namespace tidemill
