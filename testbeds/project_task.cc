#include "testbeds/project_task.h"

#include "tasks/calls_f.h"
#include "testbeds/cfunc.h"

namespace tidemill {
namespace {

v1::Grading ProjectGrading(const ProjectProblem& problem) {
  v1::Grading grading = GradingOfF();
  std::string source;
  for (int operation = 0; operation < kProjectHelpers; ++operation) {
    source += ProjectHelperSource(operation, problem.binding[static_cast<size_t>(operation)]);
  }
  v1::File& harness = *grading.mutable_harness(0);
  harness.set_content(source + harness.content());
  const ProjectWant& want = problem.want;
  for (const auto& [a, b] : problem.inputs) {
    int value = ProjectOperation(want.operation, a, b);
    if (want.outer == '+') value += want.constant;
    if (want.outer == '-') value -= want.constant;
    if (want.outer == '*') value *= want.constant;
    v1::TestCase& test = *grading.add_cases();
    test.set_input(std::to_string(a) + " " + std::to_string(b));
    test.set_expected(std::to_string(value));
  }
  return grading;
}

}  // namespace

v1::Task ProjectTask(const ProjectProblem& problem, const std::string& id,
                     const std::string& scope) {
  v1::Task task;
  task.set_id(id);
  task.set_prompt(ProjectPrompt(problem.want));
  std::string declared;
  for (int helper = 0; helper < kProjectHelpers; ++helper) {
    declared += "int h" + std::to_string(helper) + "(int, int);\n";
  }
  task.set_answer_prefix(declared + "int f(int a, int b) {\n  return ");
  task.set_answer_suffix(";\n}\n");
  task.add_tags("project");
  task.add_tags("scope:" + scope);
  task.set_max_turns(1);
  *task.mutable_grading() = ProjectGrading(problem);
  task.set_answer_file(task.grading().sources(0));
  return task;
}

std::vector<v1::Task> ProjectTasks(const std::vector<ProjectProblem>& problems,
                                   const ProjectOptions& options) {
  const std::string start = "project-" + std::to_string(options.seed) + "-";
  std::vector<v1::Task> tasks;
  tasks.reserve(problems.size());
  for (const ProjectProblem& problem : problems) {
    tasks.push_back(ProjectTask(problem, start + std::to_string(tasks.size()),
                                start + std::to_string(problem.project)));
  }
  return tasks;
}

std::vector<std::string> ProjectLexemes() {
  std::vector<std::string> lexemes = {kCfuncEnd, kCfuncFail, kProjectReturn, "(a,b)"};
  for (int operation = 0; operation < kProjectHelpers; ++operation) {
    for (int phrasing = 0; phrasing < kProjectPhrasings; ++phrasing) {
      lexemes.push_back(ProjectWords({.operation = operation, .phrasing = phrasing}));
    }
  }
  for (const char* word : {" plus", " minus", " times"}) lexemes.emplace_back(word);
  for (int i = 1; i <= kProjectConstantMax; ++i) lexemes.push_back(" " + std::to_string(i));
  for (int i = 0; i < kProjectHelpers; ++i) lexemes.push_back("h" + std::to_string(i));
  return lexemes;
}

}  // namespace tidemill
