#include "testbeds/project_task.h"

#include <nlohmann/json.hpp>

#include "tasks/line_file.h"
#include "testbeds/cfunc.h"

namespace tidemill {
namespace {

constexpr char kProjectFile[] = "f.c";

constexpr char kProjectMain[] = R"(int scanf(const char*, ...);
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

v1::Grading ProjectGrading(const ProjectProblem& problem) {
  v1::Grading grading;
  grading.add_sources(kProjectFile);
  v1::File& harness = *grading.add_harness();
  harness.set_path("main.c");
  std::string source;
  for (int operation = 0; operation < kProjectHelpers; ++operation) {
    source += ProjectHelperSource(operation, problem.binding[static_cast<size_t>(operation)]);
  }
  harness.set_content(source + kProjectMain);
  harness.set_has_content(true);
  for (const char* word : {"tcc", kProjectFile, "-run", "main.c"}) grading.add_run(word);
  grading.set_compare(v1::Grading::COMPARE_TRIMMED);
  grading.set_mode(v1::Grading::MODE_LINES);
  grading.mutable_limits()->set_wall_ms(2000);
  grading.mutable_limits()->set_cpu_ms(1000);
  grading.mutable_limits()->set_memory_mb(64);
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
  task.set_answer_file(kProjectFile);
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
