#include "cli/tasks_try.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "core/threads.h"
#include "run/loop_options.h"
#include "run/run_config.h"
#include "store/blobs.h"
#include "tasks/prepare_tasks.h"
#include "tasks/task_file.h"
#include "tools/task_trial.h"

namespace tidemill {
namespace {

using TryJson = nlohmann::ordered_json;

struct TasksTryWords {
  std::string file;
  std::string task;
  bool all = false;
  bool json = false;
  size_t jobs = 0;
  std::string roots;
  bool own_user = false;
};

TryJson TrialToJson(const TaskTrial& trial) {
  TryJson json = {{"task", trial.task},
                  {"sound", trial.sound()},
                  {"problems", trial.problems},
                  {"has_tests", trial.has_tests},
                  {"has_solution", trial.has_solution},
                  {"tests", trial.tests},
                  {"solution_passed", nullptr},
                  {"untouched_passed", trial.untouched_passed},
                  {"grading_ms", trial.grading_ms},
                  {"files_read", trial.files_read},
                  {"files_left_out", trial.files_left_out},
                  {"files_of_task", trial.files_of_task}};
  if (trial.has_solution) json["solution_passed"] = trial.solved_passed;
  if (!trial.output.empty()) json["output"] = trial.output;
  return json;
}

// The last lines of an output, which say why it went wrong.
std::string IndentedEnd(const std::string& output) {
  constexpr size_t kLinesShown = 12;
  std::vector<std::string> lines(1);
  for (const char c : output) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  std::erase(lines, "");
  std::string text;
  for (size_t i = lines.size() - std::min(lines.size(), kLinesShown); i < lines.size(); ++i) {
    text += "      | " + lines[i] + "\n";
  }
  return text;
}

void PrintLine(const TaskTrial& trial) {
  const std::string tests = std::to_string(trial.tests);
  const std::string solved = !trial.has_tests     ? "-"
                             : trial.has_solution ? std::to_string(trial.solved_passed)
                                                  : "none";
  std::printf("%-32s %-8s %8s %8s %9s %8.0f %6llu %8llu\n", Shown(trial.task).c_str(),
              trial.sound() ? "sound" : "UNSOUND", tests.c_str(), solved.c_str(),
              trial.has_tests ? std::to_string(trial.untouched_passed).c_str() : "-",
              trial.grading_ms, static_cast<unsigned long long>(trial.files_read),
              static_cast<unsigned long long>(trial.files_left_out));
  for (const std::string& problem : trial.problems) {
    std::printf("    %s\n", Shown(problem).c_str());
  }
  if (!trial.sound() && !trial.output.empty()) {
    std::printf("%s", Shown(IndentedEnd(trial.output)).c_str());
  }
  std::fflush(stdout);
}

void PrintOne(const TaskTrial& trial) {
  std::printf("task                  %s\n", Shown(trial.task).c_str());
  if (!trial.has_tests && trial.sound()) {
    std::printf("tests                 none: its scorers run during training\n");
  } else if (trial.has_tests) {
    std::printf("reference solution    %s\n", trial.has_solution
                                                  ? (std::to_string(trial.solved_passed) + " of " +
                                                     std::to_string(trial.tests) + " tests, twice")
                                                        .c_str()
                                                  : "none");
    std::printf("untouched workspace   %u of %u tests\n", trial.untouched_passed, trial.tests);
    std::printf("one grading           %.0f ms\n", trial.grading_ms);
    std::printf("files read            %llu of the agent's, %llu left out, %llu of the task's\n",
                static_cast<unsigned long long>(trial.files_read),
                static_cast<unsigned long long>(trial.files_left_out),
                static_cast<unsigned long long>(trial.files_of_task));
  }
  std::printf("sound                 %s\n", trial.sound() ? "yes" : "no");
  for (const std::string& problem : trial.problems) {
    std::printf("  %s\n", Shown(problem).c_str());
  }
  if (!trial.output.empty()) std::printf("\n%s\n", Shown(trial.output).c_str());
}

Status ChooseTasks(const TasksTryWords& words, std::vector<v1::Task>* tasks) {
  if (words.all) return Ok();
  if (words.task.empty()) {
    tasks->resize(1);
    return Ok();
  }
  for (v1::Task& task : *tasks) {
    if (task.id() != words.task) continue;
    v1::Task chosen = std::move(task);
    tasks->assign(1, std::move(chosen));
    return Ok();
  }
  return NotFound(words.file + ": has no task \"" + words.task + "\"");
}

Result<std::vector<TaskTrial>> TryFile(const TasksTryWords& words) {
  TM_ASSIGN_OR_RETURN(std::vector<v1::Task> tasks, ReadTaskFile(words.file));
  TM_RETURN_IF_ERROR(ChooseTasks(words, &tasks));
  const std::unique_ptr<BlobStore> blobs = NewMemoryBlobs();
  const PrepareOptions prepare{
      .base = BaseOf(words.file), .blobs = blobs.get(), .roots = words.roots, .solutions = true};
  std::vector<TaskTrial> broken;
  std::vector<v1::Task> ready;
  PrepareEach(prepare, &tasks, [&](size_t i, const Status& status) {
    if (status.ok()) return ready.push_back(std::move(tasks[i]));
    TaskTrial& trial = broken.emplace_back();
    trial.task = tasks[i].id();
    trial.problems = {status.message()};
  });
  const RunConfig config;  // the limits a run has by default
  TrialOptions options{.tools = ToolOptionsFrom(config),
                       .boxes = {.own_user = words.own_user},
                       .roots = words.roots,
                       .jobs = words.jobs};
  if (options.jobs == 0) options.jobs = static_cast<size_t>(AvailableCores());
  const bool table = words.all && !words.json;
  if (table) {
    std::printf("%-32s %-8s %8s %8s %9s %8s %6s %8s\n", "task", "", "tests", "solution",
                "untouched", "ms", "files", "left out");
  }
  const auto done = [&](const TaskTrial& trial) {
    if (table) PrintLine(trial);
  };
  for (const TaskTrial& trial : broken) done(trial);
  const RealClock clock;
  TM_ASSIGN_OR_RETURN(std::vector<TaskTrial> trials, TryTasks(ready, options, *blobs, clock, done));
  trials.insert(trials.begin(), broken.begin(), broken.end());
  return trials;
}

int Try(const TasksTryWords& words) {
  const auto trials = TryFile(words);
  if (!trials.ok()) return Fail(trials.status());
  size_t sound = 0, without = 0;
  for (const TaskTrial& trial : *trials) {
    sound += trial.sound() ? 1 : 0;
    without += trial.has_solution ? 0 : 1;
  }
  const bool good = sound == trials->size();
  if (words.json) {
    TryJson list = TryJson::array();
    for (const TaskTrial& trial : *trials) list.push_back(TrialToJson(trial));
    PrintJson({{"file", words.file},
               {"tasks", trials->size()},
               {"sound", sound},
               {"without_solution", without},
               {"trials", std::move(list)}});
  } else if (words.all) {
    std::printf("%zu of %zu tasks are sound, %zu have no reference solution\n", sound,
                trials->size(), without);
  } else {
    PrintOne(trials->front());
  }
  return good ? 0 : 1;
}

}  // namespace

void AddTasksTry(CLI::App& tasks, Exit& exit) {
  CLI::App* command = tasks.add_subcommand(
      "try", "Grade reference solutions and untouched workspaces as training would");
  auto words = std::make_shared<TasksTryWords>();  // shared with the callback, which runs later
  command->add_option("FILE", words->file, "Task file (JSONL)")->required();
  command->add_option("--task", words->task, "Id of the task to try; default: the first");
  command->add_flag("--all", words->all, "Try every task");
  command->add_option("--jobs", words->jobs, "Tasks tried at once; 0: one per core")
      ->capture_default_str();
  command->add_option("--roots", words->roots,
                      "Folder of unpacked root file systems, as tools.roots; default: the cache");
  command->add_flag("--own-user", words->own_user, "As tools.own_user");
  command->add_flag("--json", words->json, "Print one JSON object on standard output");
  command->footer("Exit status 0 only if every task tried is sound.");
  command->callback([words, &exit] { exit.code = Try(*words); });
}

}  // namespace tidemill
