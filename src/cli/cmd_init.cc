// tidemill init: a commented run.toml to start from, with the paths filled in.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "core/files.h"
#include "core/shipped_files.h"
#include "run/run_config.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

struct InitArguments {
  std::string model, tasks, eval;
  std::string out = "run.toml";
  bool demo = false;
  bool force = false;
};

// Where `make demo` leaves its model and tasks.
constexpr char kDemoModel[] = "build/demo/warm";
constexpr char kDemoTasks[] = "build/demo/train.jsonl";
constexpr char kDemoEval[] = "build/demo/eval.jsonl";

constexpr char kHead[] =
    R"(# A run of Tidemill. Check the tasks, then start it; Ctrl-C saves and stops:
#
#   tidemill tasks check {tasks}
#   tidemill train {out}
#   tidemill train --resume first
#
# Any key can be changed for one run: --set run.steps=20. All keys: tidemill train --config-table

[run]
name = "first"       # the folder runs/first; without this line, date and time
steps = 100          # learner steps
# minutes = 30       # or a time limit

[tasks]
train = {train}
{eval_line}
)";

constexpr char kChat[] = R"(
[model]
path = {model}
protocol = "chat"    # the model's own template and tool calls; "answer": one fenced block, no tools
# adapter = "DIR"    # a LoRA adapter in PEFT's layout to start from

[rollout]
group_size = 8       # attempts at one task, compared with each other
groups_per_step = 8  # a batch is group_size * groups_per_step episodes
max_turns = 4
max_turn_tokens = 512

[staleness]
max_steps = 2        # how many steps generation may be ahead of the learner; 0: synchronous
hard_max_steps = 6   # no older token is trained on

[learner]
objective = "grpo"   # docs/objectives.md
learning_rate = 1e-5 # with LoRA rather 1e-4
# lora_rank = 16     # train an adapter instead of all weights
checkpoint_every_steps = 10

[reward]
weights = {{ tests = 1.0 }}
# A scorer of your own (docs/training.md); examples/scorer.py is one that stays.
# weights = {{ tests = 1.0, command = 0.5 }}
# command = ["python3", "examples/scorer.py"]
# command_stays = true
)";

constexpr char kDemo[] = R"(
[model]
path = {model}
protocol = "compact" # an answer and <|end|>, for the demo's small model

[rollout]
group_size = 8       # attempts at one task, compared with each other
groups_per_step = 32 # a batch is group_size * groups_per_step episodes
max_turns = 2
max_turn_tokens = 24
cache_mb = 256

[staleness]
max_steps = 1        # how many steps generation may be ahead of the learner; 0: synchronous
hard_max_steps = 4   # no older token is trained on

[learner]
objective = "grpo"   # docs/objectives.md
learning_rate = 3e-4
warmup_steps = 5
checkpoint_every_steps = 10

[reward]
weights = {{ tests = 1.0 }}
all_or_nothing = true
turn_discount = 0.3  # a correct first answer is worth more than one after a hint

[eval]
samples = 8          # per held-out task
max_turns = 1
)";

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string ConfigText(const InitArguments& arguments) {
  const std::string eval =
      arguments.eval.empty() ? "# eval = \"held_out.jsonl\"  # tasks to measure on before and after"
                             : "eval = " + Quoted(arguments.eval);
  return fmt::format(kHead, fmt::arg("tasks", arguments.tasks), fmt::arg("out", arguments.out),
                     fmt::arg("train", Quoted(arguments.tasks)), fmt::arg("eval_line", eval)) +
         (arguments.demo ? fmt::format(kDemo, fmt::arg("model", Quoted(arguments.model)))
                         : fmt::format(kChat, fmt::arg("model", Quoted(arguments.model))));
}

int RunInit(InitArguments arguments) {
  if (arguments.demo) {
    if (arguments.model.empty()) arguments.model = kDemoModel;
    if (arguments.tasks.empty()) arguments.tasks = kDemoTasks;
    if (arguments.eval.empty() && arguments.tasks == kDemoTasks) arguments.eval = kDemoEval;
  }
  if (arguments.model.empty() || arguments.tasks.empty()) {
    return Wrong(
        Invalid("give --model DIR (a Hugging Face directory) and --tasks FILE (JSONL, "
                "docs/tasks.md), or --demo for what `make demo` leaves behind"));
  }
  if (!arguments.force && fs::exists(arguments.out)) {
    return Wrong(Exists(arguments.out + " exists; --force replaces it, --out names another file"));
  }
  const std::string text = ConfigText(arguments);
  // What is written is read: a path no TOML string can hold is found here and not by the user.
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  Status status = binder.LoadText(text, arguments.out);
  if (status.ok()) status = CheckRunConfig(config, binder);
  if (!status.ok()) return Wrong(status);
  if (status = WriteFileAtomically(arguments.out, text); !status.ok()) return Fail(status);
  std::printf("%s written; start it with: tidemill train %s\n", arguments.out.c_str(),
              arguments.out.c_str());
  for (const std::string* path : {&arguments.model, &arguments.tasks, &arguments.eval}) {
    if (path->empty() || fs::exists(*path)) continue;
    const std::string how =
        arguments.demo ? "; " + ShippedFolder("examples") + "/demo.sh makes it" : "";
    std::fprintf(stderr, "tidemill: note: %s is not there yet%s\n", path->c_str(), how.c_str());
  }
  return 0;
}

}  // namespace

void AddInitCommand(CLI::App& app, Exit& exit) {
  CLI::App* init = app.add_subcommand("init", "Write a commented run.toml to start from");
  auto arguments = std::make_shared<InitArguments>();
  init->add_option("--model", arguments->model, "Hugging Face directory of a chat model");
  init->add_option("--tasks", arguments->tasks, "Training tasks (JSONL)");
  init->add_option("--eval", arguments->eval, "Held-out tasks (JSONL)");
  init->add_flag("--demo", arguments->demo,
                 "For the small model and the tasks that `make demo` leaves in build/demo");
  init->add_option("--out", arguments->out, "File to write")->capture_default_str();
  init->add_flag("--force", arguments->force, "Replace the file if it exists");
  init->callback([arguments, &exit] { exit.code = RunInit(*arguments); });
}

}  // namespace tidemill
