// tidemill tasks check FILE, tasks generate --family cfunc|pyfunc|project .. --out FILE, tasks
// import, tasks model --family cfunc|project --out DIR.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/tasks_python.h"
#include "cli/tasks_try.h"
#include "core/nearest.h"
#include "core/text.h"
#include "rollout/protocol.h"
#include "store/blobs.h"
#include "tasks/prepare_tasks.h"
#include "tasks/task_file.h"
#include "testbeds/testbeds.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

struct TaskCounts {
  std::map<std::string, uint64_t> tags;
  uint64_t tests = 0, by_tests = 0;        // hidden tests, and the tasks that have some
  uint64_t by_command = 0, by_others = 0;  // tasks
};

TaskCounts CountTasks(const std::vector<v1::Task>& tasks) {
  TaskCounts counts;
  for (const v1::Task& task : tasks) {
    for (const std::string& tag : task.tags()) ++counts.tags[tag];
    const v1::Grading& grading = task.grading();
    counts.tests += static_cast<uint64_t>(grading.cases_size());
    if (grading.cases_size() > 0) {
      ++counts.by_tests;
    } else if (grading.mode() == v1::Grading::MODE_COMMAND) {
      ++counts.by_command;
    } else {
      ++counts.by_others;
    }
  }
  return counts;
}

// "20 hidden tests, 3 tasks graded by a command"
std::string GradingText(const TaskCounts& counts) {
  std::string text;
  const auto add = [&](uint64_t count, const char* one, const char* many) {
    if (count > 0) text += std::to_string(count) + " " + (count == 1 ? one : many) + ", ";
  };
  add(counts.tests, "hidden test", "hidden tests");
  add(counts.by_command, "task graded by a command", "tasks graded by a command");
  add(counts.by_others, "task without tests (its scorers run in training)",
      "tasks without tests (their scorers run in training)");
  return text;
}

// The sources of a task's files must exist, and so must the needs of its grading.
void AddMissingFiles(const std::string& path, TaskFileContents& contents) {
  const std::unique_ptr<BlobStore> blobs = NewMemoryBlobs();
  const PrepareOptions options{
      .base = BaseOf(path), .blobs = blobs.get(), .solutions = true, .unpack = false};
  std::vector<v1::Task> tasks = contents.tasks;
  PrepareEach(options, &tasks, [&](size_t i, const Status& status) {
    tasks[i].Clear();  // only whether it can be had is asked
    if (status.ok()) return;
    contents.more_errors |= contents.errors.size() >= kTaskErrorsMax;
    if (contents.more_errors) return;
    contents.errors.push_back(path + ":" + std::to_string(contents.lines[i]) + ": task " +
                              contents.tasks[i].id() + ": " + status.message());
  });
}

// A tool that is neither built in nor one of those the config declares.
void AddUnknownTools(const std::vector<std::string>& declared, const std::string& path,
                     TaskFileContents& contents) {
  std::vector<std::string> known = declared;
  for (const ToolDescription& tool : BuiltInTools()) known.push_back(tool.name);
  for (const v1::Task& task : contents.tasks) {
    for (const std::string& tool : task.tools()) {
      if (std::find(known.begin(), known.end(), tool) != known.end()) continue;
      contents.errors.push_back(path + ": task " + task.id() + ": tools: there is no tool \"" +
                                tool + "\"." + DidYouMean(tool, known) +
                                " --tool NAME declares one of your config");
    }
  }
}

int Check(const std::string& path, const std::vector<std::string>& tools, bool json) {
  std::ifstream input(path, std::ios::binary);
  if (!input || std::filesystem::is_directory(path)) {
    return Fail(NotFound(path + ": no such file, or not readable"));
  }
  TaskFileContents contents = ParseTasks(input, path);
  AddUnknownTools(tools, path, contents);
  AddMissingFiles(path, contents);
  const TaskCounts counts = CountTasks(contents.tasks);
  const bool good = contents.errors.empty() && !contents.tasks.empty();
  if (json) {
    PrintJson({{"file", path},
               {"ok", good},
               {"tasks", contents.tasks.size()},
               {"hidden_tests", counts.tests},
               {"graded_by_tests", counts.by_tests},
               {"graded_by_command", counts.by_command},
               {"tags", counts.tags},
               {"errors", contents.errors},
               {"more_errors", contents.more_errors}});
    return good ? 0 : 1;
  }
  for (const std::string& error : contents.errors) {
    std::fprintf(stderr, "%s\n", ForTerminal(error).c_str());
  }
  if (contents.more_errors) std::fprintf(stderr, "%s: more errors not shown\n", path.c_str());
  if (contents.errors.empty() && contents.tasks.empty()) {
    std::fprintf(stderr, "%s: contains no task\n", path.c_str());
  }
  std::printf("%s: %zu task%s, %s%zu error%s\n", path.c_str(), contents.tasks.size(),
              contents.tasks.size() == 1 ? "" : "s", GradingText(counts).c_str(),
              contents.errors.size(), contents.errors.size() == 1 ? "" : "s");
  for (const auto& [tag, count] : counts.tags) {
    std::printf("  %-20s %llu\n", tag.c_str(), static_cast<unsigned long long>(count));
  }
  return good ? 0 : 1;
}

struct GenerateWords {
  FamilyOrder order;
  std::string split = "train";
  SolutionWords solutions;
  std::string out;
  bool json = false;
};

// A set in one line, in the words of its family.
std::string SetText(const FamilyOrder& order, const FamilySet& made) {
  const std::string tasks = std::to_string(made.tasks.size()) + " tasks";
  if (!made.behaviours) return tasks + " of " + std::to_string(order.projects) + " projects";
  return tasks + ", " + std::to_string(*made.behaviours) + " different functions";
}

void PrintSet(const GenerateWords& words, const FamilySet& made) {
  const size_t demonstrations = made.demonstrations.size();
  if (!words.json) {
    std::printf("%s: %s\n", words.out.c_str(), SetText(words.order, made).c_str());
    if (demonstrations == 0) return;
    std::printf("%s: %zu demonstrations%s\n", words.solutions.path.c_str(), demonstrations,
                made.behaviours ? "" : " of other projects");
    return;
  }
  Json report = {{"out", words.out}, {"tasks", made.tasks.size()}};
  if (made.behaviours) {
    report["behaviours"] = *made.behaviours;
    if (!made.by_difficulty.empty()) report["by_difficulty"] = made.by_difficulty;
    if (demonstrations > 0) report["solutions"] = words.solutions.path;
  } else {
    report["projects"] = words.order.projects;
    report["demonstrations"] = demonstrations;
  }
  PrintJson(report);
}

Status Generate(GenerateWords& words) {
  words.order.heldout = words.split == "heldout";
  words.order.demonstrations = !words.solutions.path.empty();
  TM_ASSIGN_OR_RETURN(const FamilySet made, GenerateFamily(words.order));
  TM_RETURN_IF_ERROR(WriteTaskFile(words.out, made.tasks));
  if (!made.solved.empty()) TM_RETURN_IF_ERROR(WriteSolutions(words.solutions, made.solved));
  if (!made.demonstrations.empty()) {
    TM_RETURN_IF_ERROR(WriteDemonstrations(words.solutions.path, made.demonstrations));
  }
  PrintSet(words, made);
  return Ok();
}

void AddCheck(CLI::App& tasks, Exit& exit) {
  CLI::App* command = tasks.add_subcommand("check", "Report every error of a task file by line");
  // Shared: the options write to it, the callback reads it, and both outlive this function.
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  auto tools = std::make_shared<std::vector<std::string>>();
  command->add_option("FILE", *path, "Task file (JSONL)")->required();
  command->add_flag("--json", *json, "Print one JSON object on standard output");
  command->add_option("--tool", *tools, "Name of a tool that the config declares; repeatable");
  command->callback([path, tools, json, &exit] { exit.code = Check(*path, *tools, *json); });
}

void AddProjectWords(CLI::App& command, GenerateWords& words) {
  command
      .add_option("--projects", words.order.projects,
                  "project: number of projects the tasks are dealt out to")
      ->capture_default_str();
  command
      .add_option(
          "--change-after", words.order.change_after,
          "project: tasks of a project after which half of its names are bound anew; 0: never")
      ->capture_default_str();
  command
      .add_option("--demonstrations", words.order.project_demonstrations,
                  "project: number of demonstrations; 0: as many as tasks")
      ->capture_default_str();
  command
      .add_option("--cases", words.order.cases_most,
                  "project: most cases in the prompt of a demonstration")
      ->capture_default_str();
}

void AddGenerate(CLI::App& tasks, Exit& exit) {
  CLI::App* command = tasks.add_subcommand("generate", "Generate tasks of a built-in family");
  auto words = std::make_shared<GenerateWords>();  // shared: as above
  command->add_option("--family", words->order.family, "Task family: cfunc, pyfunc, project")
      ->required()
      ->check(CLI::IsMember(TaskFamilies()));
  AddProjectWords(*command, *words);
  command->add_option("--count", words->order.count, "Number of tasks")->required();
  command
      ->add_option("--seed", words->order.seed, "Random seed; the same seed gives the same tasks")
      ->capture_default_str();
  command->add_option("--split", words->split, "train and heldout share no behaviour")
      ->check(CLI::IsMember({"train", "heldout"}))
      ->capture_default_str();
  command
      ->add_option("--difficulty", words->order.levels,
                   "Difficulty levels, 1 to 5 (3,4); default: a mix")
      ->delimiter(',');
  command->add_option("--with-solutions", words->solutions.path,
                      "Also write demonstrations of these tasks (JSONL of prompt and completion)");
  command->add_option("--model", words->solutions.model,
                      "pyfunc: model directory with the chat format of the demonstrations");
  command->add_option("--system-prompt", words->solutions.system_prompt,
                      "pyfunc: system prompt of the demonstrations");
  command
      ->add_option("--second-turns", words->order.second_turn_share,
                   "Share of demonstrations that correct a wrong first answer")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--slips", words->order.slip_share,
                   "Share of demonstrations with a wrong answer")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--out", words->out, "Output file (JSONL)")->required();
  command->add_flag("--json", words->json, "Print one JSON object on standard output");
  command->callback([words, &exit] {
    const Status status = Generate(*words);
    if (!status.ok()) exit.code = Fail(status);
  });
}

void AddModelFiles(CLI::App& tasks, Exit& exit) {
  CLI::App* command = tasks.add_subcommand(
      "model", "Write the tokenizer and config of a model for a family, without weights");
  struct Words {
    std::string family;
    FamilyModelShape shape;
    std::string out;
    bool json = false;
  };
  auto words = std::make_shared<Words>();  // shared: as above
  command->add_option("--family", words->family, "Task family: cfunc, project")
      ->required()
      ->check(CLI::IsMember(ModelFamilies()));
  command->add_option("--width", words->shape.hidden_size, "Hidden size")->capture_default_str();
  command->add_option("--feed-forward", words->shape.intermediate_size, "Intermediate size")
      ->capture_default_str();
  command->add_option("--layers", words->shape.layers, "Layers")->capture_default_str();
  command->add_option("--heads", words->shape.heads, "Attention heads")->capture_default_str();
  command->add_option("--context", words->shape.context, "Maximum sequence length in tokens")
      ->capture_default_str();
  command->add_option("--out", words->out, "Output directory")->required();
  command->add_flag("--json", words->json, "Print one JSON object on standard output");
  command->callback([words, &exit] {
    const Result<int64_t> parameters = WriteFamilyModel(words->family, words->shape, words->out);
    if (!parameters.ok()) {
      exit.code = Fail(parameters.status());
    } else if (words->json) {
      PrintJson({{"out", words->out}, {"parameters", *parameters}});
    } else {
      std::printf("%s: tokenizer and config for %lld parameters\n", words->out.c_str(),
                  static_cast<long long>(*parameters));
    }
  });
}

}  // namespace

void AddTasksCommand(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand("tasks", "Generate, check, try and import task files");
  command->require_subcommand(1);
  AddCheck(*command, exit);
  AddGenerate(*command, exit);
  AddTasksTry(*command, exit);
  AddTasksImport(*command, exit);
  AddModelFiles(*command, exit);
}

}  // namespace tidemill
