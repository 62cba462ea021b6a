#include "cli/tasks_python.h"

#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/import_hooks.h"
#include "model/tokenizer.h"
#include "rollout/protocol.h"
#include "tasks/line_file.h"
#include "tasks/task_file.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

struct TasksImportWords {
  std::string format;
  std::string source;
  std::string out;
  ImportOptions options;
  SolutionWords solutions;
  bool json = false;
};

Status ImportToFiles(const TasksImportWords& words) {
  ImportOptions options = words.options;
  options.hooks = NewImportHooks();
  TM_ASSIGN_OR_RETURN(const ImportedTasks imported,
                      ImportTasks(words.format, words.source, options));
  std::vector<v1::Task> tasks;
  for (const ImportedTask& one : imported.tasks) tasks.push_back(one.task);
  TM_RETURN_IF_ERROR(WriteTaskFile(words.out, tasks));
  TM_RETURN_IF_ERROR(WriteSolutions(words.solutions, imported.tasks));
  for (const std::string& one : imported.skipped) {
    std::fprintf(stderr, "skipped %s\n", one.c_str());
  }
  for (const std::string& one : imported.notes) std::fprintf(stderr, "note: %s\n", one.c_str());
  if (words.json) {
    PrintJson({{"out", words.out},
               {"tasks", tasks.size()},
               {"skipped", imported.skipped},
               {"notes", imported.notes}});
  } else {
    std::printf("%s: %zu tasks, %zu skipped\n", words.out.c_str(), tasks.size(),
                imported.skipped.size());
  }
  return Ok();
}

}  // namespace

Status WriteSolutions(const SolutionWords& words, const std::vector<ImportedTask>& tasks) {
  if (words.path.empty()) return Ok();
  if (words.model.empty()) {
    return Invalid("--with-solutions needs --model: demonstrations are written in its chat format");
  }
  TM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Read(words.model));
  ProtocolOptions options;
  options.system_prompt = words.system_prompt;
  TM_ASSIGN_OR_RETURN(const auto protocol, NewProtocol("answer", tokenizer, words.model, options));
  const v1::CaseSet none;
  const int64_t now_ms = int64_t{std::time(nullptr)} * 1000;
  std::vector<std::string> lines;
  for (const ImportedTask& one : tasks) {
    if (one.solution.empty()) continue;
    std::string code = one.solution;
    while (!code.empty() && (code.back() == '\n' || code.back() == ' ')) code.pop_back();
    std::vector<TokenId> answer =
        tokenizer.Encode("```python\n" + code + "\n```", SpecialTokens::kAsText);
    answer.push_back(protocol->stop_ids().front());
    TM_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt,
                        protocol->Prompt({one.task, none, now_ms}));
    const Json line = {{"task", one.task.id()}, {"prompt_ids", prompt}, {"completion_ids", answer}};
    lines.push_back(line.dump());
  }
  if (lines.empty()) return Invalid("none of the tasks has a solution to write");
  return WriteLines(words.path, lines.size(), [&](size_t i) { return lines[i]; });
}

void AddTasksImport(CLI::App& tasks, Exit& exit) {
  CLI::App* command = tasks.add_subcommand("import", "Convert a published task set to a task file");
  auto words = std::make_shared<TasksImportWords>();  // shared with the callback, which runs later
  command
      ->add_option("--format", words->format,
                   "mbpp, humaneval, pyfunc, harbor, swebench, nemo-gym or verifiers")
      ->required()
      ->check(CLI::IsMember(ImportFormats()));
  command->add_option("SOURCE", words->source, "Published file (JSONL); harbor: a folder")
      ->required();
  command->add_option("--out", words->out, "Output file (JSONL)")->required();
  command->add_option("--split", words->options.split, "Only this split; default: all")
      ->check(CLI::IsMember({"train", "validation", "test", "prompt"}));
  command->add_option("--environment", words->options.environment,
                      "nemo-gym, verifiers: name of the [[environment]]; default: the only one");
  command->add_option("--cpu-ms", words->options.cpu_ms, "CPU time limit of one grading")
      ->check(CLI::Range(1, 3'600'000))
      ->capture_default_str();
  command->add_option("--root", words->options.root,
                      "harbor, swebench: root file system of the boxes (folder, tar file or OCI "
                      "layout); host: this machine's");
  command->add_option("--mirrors", words->options.mirrors,
                      "swebench: folder of the repositories (owner__name.git)");
  command->add_option("--command", words->options.command,
                      "swebench: test command instead of pytest; {report} is its JUnit file");
  command->add_option("--with-solutions", words->solutions.path,
                      "Also write the authors' solutions as demonstrations for warmup (JSONL)");
  command->add_option("--model", words->solutions.model,
                      "Model directory with the chat format of the demonstrations");
  command->add_option("--system-prompt", words->solutions.system_prompt,
                      "System prompt of the demonstrations");
  command->add_flag("--json", words->json, "Print one JSON object on standard output");
  command->callback([words, &exit] {
    if (const Status status = ImportToFiles(*words); !status.ok()) exit.code = Fail(status);
  });
}

}  // namespace tidemill
