// The tool "bash": a command in the episode's own box.
//
//   request -> the episode's box, or a new one with the workspace -> files that other tools changed
//   -> command -> its output, the workspace as it is now
#include <fmt/format.h>

#include <algorithm>

#include "core/hash.h"
#include "core/ids.h"
#include "core/text.h"
#include "tools/arguments.h"
#include "tools/diagnostics.h"
#include "tools/tool_runner.h"
#include "tools/tool_text.h"

namespace tidemill {
namespace {

// Each command is a shell of its own that begins with what the last one left: variables, functions
// and the folder. So a command that hangs, or ends its shell, takes nothing else with it.
constexpr std::string_view kShellScript = R"sh(exec 2>&1 </dev/null
_state=/tmp/.shell
mkdir -p $_state
[ -f $_state/variables ] && . $_state/variables >/dev/null 2>/dev/null
_state=/tmp/.shell
cd /workspace
[ -f $_state/folder ] && cd "$(cat $_state/folder)" 2>/dev/null
_keep() {
  _status=$?
  pwd > /tmp/.shell/folder
  { declare -p | grep -v '^declare -[a-zA-Z]*r'; declare -f; } > /tmp/.shell/variables 2>/dev/null
  exit $_status
}
trap _keep EXIT
_command=$1
shift
eval "$_command"
)sh";

std::string Mark(const WorkspaceFile& file) {
  return Sha256Hex(file.content) + (file.executable ? "x" : "-");
}

// A command that merely fails leaves its box usable: one that is not was spoilt by what the agent
// put in the way of its files.
bool BroughtDown(v1::Outcome outcome) {
  return outcome == v1::OUTCOME_FAILED || outcome == v1::OUTCOME_CPU_LIMIT ||
         outcome == v1::OUTCOME_MEMORY_LIMIT || outcome == v1::OUTCOME_DISK_LIMIT ||
         outcome == v1::OUTCOME_PROCESS_LIMIT || outcome == v1::OUTCOME_TIMEOUT ||
         outcome == v1::OUTCOME_OUTPUT_LIMIT;
}

// Puts into the box what other tools changed since its last command.
Status LayChanges(const Workspace& files, const BoxLimits& limits, ShellBox& shell) {
  RunSpec remove;
  remove.command = {"/bin/rm", "-f", "--"};
  remove.limits = limits;
  remove.leave_running = true;
  for (auto it = shell.known.begin(); it != shell.known.end();) {
    if (files.count(it->first) != 0) {
      ++it;
      continue;
    }
    remove.command.push_back(it->first);
    it = shell.known.erase(it);
  }
  if (remove.command.size() > 3) (void)shell.box->Run(remove);
  for (const auto& [path, file] : files) {
    std::string mark = Mark(file);
    std::string& known = shell.known[path];
    if (known == mark) continue;
    TM_RETURN_IF_ERROR(shell.box->Put(path, file.content, file.executable));
    known = std::move(mark);
  }
  return Ok();
}

std::string ShellText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes) {
  std::string ending = EndingText(result, limits);
  if (result.outcome() == v1::OUTCOME_FAILED) {
    ending = fmt::format("exit status {}", result.exit_code());
  }
  if (!result.cause().empty()) ending += (ending.empty() ? "" : ": ") + result.cause();
  if (!ending.empty()) ending += "\n";
  if (ending.size() >= bytes) return CutText(ending, bytes);
  return ending + CutText(ToUtf8(result.stdout_bytes()), bytes - ending.size());
}

}  // namespace

Result<std::unique_ptr<ShellBox>> ToolRunner::OpenShell(Call& call) {
  if (!shells_.Reserve(clock_.Now())) {
    return Unavailable("every box for shells is in use; raise tools.shells");
  }
  auto shell = std::make_unique<ShellBox>();
  auto box = TakeBox(call.request);
  Status status = box.status();
  if (box.ok()) {
    shell->box = std::move(*box);
    status = shell->box->Configure(call.limits);
  }
  if (status.ok()) return shell;
  shells_.Release();
  return status;
}

// The episode's box, or a new one where it has none yet or brought it down itself.
Result<std::unique_ptr<ShellBox>> ToolRunner::ShellOf(Call& call) {
  const TrajectoryKey episode = TrajectoryKey::From(call.request.episode());
  if (call.request.box_holder().empty()) {
    shells_.Drop(episode);  // of a first call that was delivered twice
    return OpenShell(call);
  }
  std::unique_ptr<ShellBox> shell = shells_.Take(episode);
  if (shell == nullptr) {
    call.result->set_box_lost(true);
    return Unavailable("the episode's box is not here");
  }
  if (shell->box != nullptr) return shell;
  shells_.Release();
  return OpenShell(call);
}

void ToolRunner::Bash(Call& call) {
  auto arguments = Arguments::Parse(call.request.arguments_json());
  if (!arguments.ok()) return Refuse(arguments.status(), call.result);
  const auto command = arguments->Need("command");
  if (!command.ok()) return Refuse(command.status(), call.result);
  const auto seconds = arguments->Number("timeout_s");
  if (!seconds.ok()) return Refuse(seconds.status(), call.result);
  if (call.request.episode().task().empty()) {
    return Refuse(Invalid("bash needs an episode"), call.result);
  }
  auto shell = ShellOf(call);
  if (!shell.ok()) return Refuse(Unavailable(shell.status().message()), call.result);
  RunSpec spec;
  spec.limits = call.limits;
  if (*seconds && **seconds > 0) {
    spec.limits.wall = std::min<Duration>(spec.limits.wall, std::chrono::seconds(**seconds));
  }
  spec.command = {"/bin/bash", "-c", std::string(kShellScript), "bash", *command};
  spec.keep_bytes = std::max<size_t>(call.text_limit, 4096);
  spec.leave_running = true;
  RunInShell(call, spec, **shell);
  FinishShell(call, std::move(*shell));
  call.result->set_text(ShellText(*call.result, spec.limits, call.text_limit));
}

void ToolRunner::RunInShell(Call& call, const RunSpec& spec, ShellBox& shell) {
  v1::ToolResult& result = *call.result;
  const Status laid = LayChanges(call.workspace, call.limits, shell);
  if (!laid.ok()) return Refuse(Unavailable(laid.message()), &result);
  call.cancellation.Watch(shell.box.get());
  const RunReport report = shell.box->Run(spec);
  call.cancellation.Watch(nullptr);
  TakeReport(report, &result);
  if (report.outcome == v1::OUTCOME_UNAVAILABLE && report.cause.starts_with(kBoxRefused)) {
    result.set_outcome(v1::OUTCOME_FAILED);
    return;
  }
  if (report.starved) {
    // A command cannot be taken back, so it cannot be run again either.
    result.set_outcome(v1::OUTCOME_UNAVAILABLE);
    result.set_cause("the machine was too busy to run the command in its time");
  }
  if (result.outcome() == v1::OUTCOME_UNAVAILABLE || !shell.box->usable()) return;
  CollectLimits limits;
  limits.bytes_max = options_.workspace.bytes_max;
  limits.files_max = options_.workspace.files_max;
  auto tree = shell.box->Collect(limits);
  if (tree.status().code() == Code::kFull) {
    result.set_cause("the workspace is too large to be kept (" + tree.status().message() +
                     "); the files count as they were before this command");
    return;
  }
  if (!tree.ok()) return Refuse(Unavailable(tree.status().message()), &result);
  call.workspace.clear();
  shell.known.clear();
  for (v1::File& file : *tree->mutable_files()) {
    WorkspaceFile& place = call.workspace[file.path()];
    place = {std::move(*file.mutable_content()), file.executable()};
    shell.known[file.path()] = Mark(place);
  }
}

void ToolRunner::FinishShell(Call& call, std::unique_ptr<ShellBox> shell) {
  const TrajectoryKey episode = TrajectoryKey::From(call.request.episode());
  v1::ToolResult& result = *call.result;
  if (result.outcome() == v1::OUTCOME_UNAVAILABLE || call.cancellation.cancelled()) {
    result.set_box_lost(true);
    shells_.Release();
    return;
  }
  if (!shell->box->usable()) {
    if (!BroughtDown(result.outcome())) {
      result.set_outcome(v1::OUTCOME_UNAVAILABLE);
      result.set_box_lost(true);
      shells_.Release();
      return;
    }
    shell->box.reset();
    shell->known.clear();
    const std::string before = result.cause().empty() ? "" : result.cause() + "; ";
    result.set_cause(before +
                     "the box was closed with everything that ran in it; the next command gets a "
                     "new one, with the files as they were before this command");
  }
  shells_.Keep(episode, std::move(shell), clock_.Now());
}

}  // namespace tidemill
