#include "testbeds/cfunc_task.h"

#include "tasks/calls_f.h"

namespace tidemill {
namespace {

void AddCases(const std::vector<CfuncExample>& examples, bool named, v1::Grading& grading) {
  for (const CfuncExample& example : examples) {
    v1::TestCase& test = *grading.add_cases();
    if (named) test.set_name(CfuncExampleText(example));
    test.set_input(std::to_string(example.a) + " " + std::to_string(example.b));
    test.set_expected(std::to_string(example.value));
  }
}

}  // namespace

v1::Task CfuncTask(const CfuncProblem& problem, const std::string& id) {
  v1::Task task;
  task.set_id(id);
  task.set_prompt(CfuncPrompt(problem));
  task.set_answer_prefix("int f(int a, int b) {\n  return ");
  task.set_answer_suffix(";\n}\n");
  task.add_tags("cfunc");
  task.add_tags("level" + std::to_string(problem.level));
  task.set_difficulty(problem.level);
  *task.mutable_grading() = GradingOfF();
  task.set_answer_file(task.grading().sources(0));
  v1::Specification& specification = *task.mutable_grading()->mutable_specification();
  specification.set_source(task.answer_prefix() + ExprText(problem.expr) + task.answer_suffix());
  specification.set_function("f");
  specification.set_low(-kCfuncHiddenBound);
  specification.set_high(kCfuncHiddenBound);
  *task.mutable_examples() = GradingOfF();
  AddCases(problem.hidden, false, *task.mutable_grading());
  AddCases(problem.further, true, *task.mutable_examples());
  AddCases(problem.shown, true, *task.mutable_examples());
  return task;
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

}  // namespace tidemill
