#include "tools/tool_runner.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include "core/ids.h"
#include "core/secret.h"
#include "core/text.h"
#include "tools/command_grader.h"
#include "tools/diagnostics.h"
#include "tools/grader.h"
#include "tools/tool_table.h"
#include "tools/tool_text.h"

namespace tidemill {
namespace {

// Whether the files fit into a box of that size, as its file system counts.
bool Fits(const Workspace& files, uint64_t disk_bytes) {
  uint64_t bytes = 0, entries = 16;
  for (const auto& [path, file] : files) {
    bytes += (file.content.size() + 4095) / 4096 * 4096;
    entries += 1 + static_cast<uint64_t>(std::count(path.begin(), path.end(), '/'));
  }
  return bytes < disk_bytes && entries < disk_bytes / 4096;
}

constexpr int kNoSuchProgram = 127;  // as shells say it

// Boxes have the programs of the machine, or of their root.
bool OnBoxPath(const std::string& program, const Box& box) {
  std::istringstream folders{box.path()};
  for (std::string folder; std::getline(folders, folder, ':');) {
    struct stat info = {};
    const std::string path = box.root() + folder + "/" + program;
    // Links of a root lead somewhere else from here: that there is one is enough.
    if (lstat(path.c_str(), &info) == 0) return true;
  }
  return false;
}

// For the time a request uses the box.
class Watched {
 public:
  Watched(Cancellation& cancellation, Box& box) : cancellation_(cancellation) {
    cancellation_.Watch(&box);
  }
  ~Watched() { cancellation_.Watch(nullptr); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  Cancellation& cancellation_;
};

}  // namespace

RunReport RunProgram(Box& box, const RunSpec& spec) {
  RunReport report = box.Run(spec);
  // The command's own words prove nothing: the agent's program may be part of it.
  if (report.outcome != v1::OUTCOME_FAILED || report.exit_code != kNoSuchProgram) return report;
  const std::string& program = spec.command[0];
  if (program.find('/') != std::string::npos || OnBoxPath(program, box)) return report;
  report.outcome = v1::OUTCOME_UNAVAILABLE;
  report.cause = fmt::format("{} is not installed on this machine", program);
  return report;
}

void Refuse(const Status& status, v1::ToolResult* result) {
  const bool agents = status.code() == Code::kInvalid;
  result->set_outcome(agents ? v1::OUTCOME_INVALID : v1::OUTCOME_UNAVAILABLE);
  result->set_cause(status.message());
}

void TakeReport(const RunReport& report, v1::ToolResult* result) {
  result->set_outcome(report.outcome);
  result->set_exit_code(report.exit_code);
  result->set_cause(report.cause);
  result->set_stdout_bytes(report.out);
  result->set_stderr_bytes(report.err);
  result->set_truncated(report.truncated);
  result->set_wall_ms(result->wall_ms() + report.wall_ms);
  result->set_cpu_ms(result->cpu_ms() + report.cpu_ms);
  result->set_peak_memory_kb(std::max(result->peak_memory_kb(), report.peak_memory_kb));
  result->set_degraded(report.degraded);
}

ToolRunner::ToolRunner(BoxPool& pool, RootPools& roots, KeptBoxes& kept, ShellBoxes& shells,
                       McpServers& servers, BlobStore* blobs, const Clock& clock,
                       ToolOptions options)
    : roots_(roots),
      kept_(kept),
      shells_(shells),
      servers_(servers),
      blobs_(blobs),
      clock_(clock),
      options_(std::move(options)),
      nursery_(pool) {}

v1::ToolResult ToolRunner::Handle(const v1::ToolRequest& request, Cancellation& cancellation) {
  v1::ToolResult result;
  const size_t text_limit = request.text_limit() != 0 ? request.text_limit() : options_.text_limit;
  Call call{request,    cancellation, {}, LimitsFrom(request.limits(), options_.limits),
            text_limit, &result};
  Status status = CheckLimits(call.limits);
  if (status.ok()) {
    auto workspace = LoadWorkspace(request.tree(), request.edits(), blobs_, options_.workspace);
    status = workspace.status();
    if (workspace.ok()) call.workspace = std::move(*workspace);
  }
  if (status.ok()) {
    Dispatch(call);
  } else {
    Refuse(status, &result);
  }
  if (cancellation.cancelled()) {
    result.Clear();
    result.set_outcome(v1::OUTCOME_UNAVAILABLE);
    result.set_cause("it was cancelled");
  }
  if (result.text().empty()) {
    result.set_text(CutText(EndingText(result, call.limits), text_limit));
  }
  result.set_request_id(request.request_id());
  *result.mutable_episode() = request.episode();
  result.set_tool(request.tool());
  result.set_worker(options_.worker);
  // Without a change by the tool the tree is as it came, edits included.
  if (!result.has_tree() && result.outcome() != v1::OUTCOME_UNAVAILABLE &&
      request.tool() != "grade") {
    auto tree = StoreWorkspace(call.workspace, blobs_);
    if (tree.ok()) {
      *result.mutable_tree() = std::move(*tree);
    } else {
      Refuse(tree.status(), &result);
    }
  }
  MakeReadable(result);
  return result;
}

void ToolRunner::Dispatch(Call& call) {
  const std::string& tool = call.request.tool();
  if (tool == "compile") return Compile(call);
  if (tool == "lint") return Lint(call);
  if (tool == "run_tests") return RunTests(call);
  if (tool == "grade") return Grade(call);
  if (tool == "bash") return Bash(call);
  if (const ToolRow* row = FindTool(tool); row != nullptr && row->run != nullptr) {
    const auto arguments = Arguments::Parse(call.request.arguments_json());
    if (!arguments.ok()) return Refuse(arguments.status(), call.result);
    auto text = row->run(*arguments, call.text_limit, &call.workspace);
    if (!text.ok()) return Refuse(text.status(), call.result);
    call.result->set_text(std::move(*text));
    call.result->set_outcome(v1::OUTCOME_OK);
    return;
  }
  for (const CommandTool& command : options_.commands) {
    if (command.name == tool) return RunCommand(call, command);
  }
  if (McpServer* server = servers_.Of(tool); server != nullptr) return AskServer(call, *server);
  Refuse(Invalid(fmt::format("there is no tool \"{}\"", tool)), call.result);
}

Result<std::unique_ptr<Box>> ToolRunner::TakeBox(const v1::ToolRequest& request) {
  TM_ASSIGN_OR_RETURN(BoxPool* const pool, roots_.Of(request.root()));
  return pool->Take();
}

bool ToolRunner::OnceInBox(Call& call, const Workspace& files, const BoxLimits& limits, bool fresh,
                           const BoxWork& work) {
  const TrajectoryKey episode = TrajectoryKey::From(call.request.episode());
  const bool keep = !fresh && call.request.keep_box() && !episode.task.empty();
  std::unique_ptr<Box> box;
  if (!fresh && !episode.task.empty()) box = kept_.Take(episode, clock_.Now());
  if (box != nullptr && box->disk_bytes() != limits.disk_bytes) box.reset();
  Status status;
  if (box != nullptr) {
    status = box->RemoveAll();
  } else {
    auto taken = TakeBox(call.request);
    status = taken.status();
    if (taken.ok()) {
      box = std::move(*taken);
      status = box->Configure(limits);
    }
  }
  for (auto it = files.begin(); status.ok() && it != files.end(); ++it) {
    status = box->Put(it->first, it->second.content, it->second.executable);
  }
  if (!status.ok()) {
    call.result->set_outcome(v1::OUTCOME_UNAVAILABLE);
    call.result->set_cause(status.message());
    return false;
  }
  bool starved;
  {
    const Watched watched(call.cancellation, *box);
    starved = work(*box, call.result);
  }
  if (keep && box->usable()) kept_.Keep(episode, std::move(box), clock_.Now());
  return starved;
}

void ToolRunner::InBox(Call& call, const Workspace& files, const BoxLimits& limits, bool fresh,
                       const BoxWork& work) {
  if (!Fits(files, limits.disk_bytes)) {
    call.result->set_outcome(v1::OUTCOME_DISK_LIMIT);
    return;
  }
  const bool starved = OnceInBox(call, files, limits, fresh, work);
  const bool ours = call.result->outcome() == v1::OUTCOME_UNAVAILABLE;
  if ((!starved && !ours) || call.cancellation.cancelled()) return;
  call.result->Clear();
  (void)OnceInBox(call, files, limits, /*fresh=*/true, work);
}

Result<GradeOptions> ToolRunner::GradeWith(const Call& call, const Status& checked) const {
  TM_RETURN_IF_ERROR(checked);
  GradeOptions options;
  options.limits = LimitsFrom(call.request.grading().limits(), call.limits);
  options.failures_max = options_.failures_max;
  TM_RETURN_IF_ERROR(CheckLimits(options.limits));
  return options;
}

void ToolRunner::Grade(Call& call) {
  const v1::Grading& grading = call.request.grading();
  if (grading.mode() == v1::Grading::MODE_PYTHON) return GradePythonAnswer(call, false);
  if (grading.mode() == v1::Grading::MODE_COMMAND) return GradeByCommand(call, false);
  const auto options = GradeWith(call, CheckGrading(grading));
  if (!options.ok()) return Refuse(options.status(), call.result);
  auto files = GradingFiles(grading, call.workspace, blobs_);
  if (!files.ok()) return Refuse(files.status(), call.result);
  InBox(call, *files, options->limits, /*fresh=*/true, [&](Box& box, v1::ToolResult* result) {
    return GradeInBox(grading, *options, box, result);
  });
  call.result->set_text(TestsText(*call.result, options->limits, call.text_limit));
}

void ToolRunner::GradeByCommand(Call& call, bool visible) {
  const v1::Grading& grading = call.request.grading();
  const auto options = GradeWith(call, CheckCommandGrading(grading));
  if (!options.ok()) return Refuse(options.status(), call.result);
  auto files = CommandGradingFiles(grading, call.workspace, blobs_);
  if (!files.ok()) return Refuse(files.status(), call.result);
  CommandRun run{.grading = grading, .options = *options, .nonce = NewSecret().substr(0, 16)};
  InBox(call, *files, options->limits, /*fresh=*/true,
        [&](Box& box, v1::ToolResult* result) { return RunGradingCommand(run, box, result); });
  if (!visible && call.result->tests_passed() > 0) RunCanaries(call, run, *files);
  call.result->set_text(TestsText(*call.result, options->limits, call.text_limit));
}

void ToolRunner::RunCanaries(Call& call, const CommandRun& first, const Workspace& files) {
  const v1::Grading& grading = call.request.grading();
  const GradeOptions& options = first.options;
  const auto kinds = CanariesOf(grading, blobs_);
  if (!kinds.ok()) return Refuse(kinds.status(), call.result);
  v1::ToolResult& result = *call.result;
  for (const CanaryKind kind : *kinds) {
    CommandRun run{.grading = grading, .options = options, .nonce = NewSecret().substr(0, 16)};
    if (kind == CanaryKind::kOtherValues) {
      run.changed = PythonTestsOf(grading);
      run.passed_before = first.passed;
    }
    Workspace laid = files;
    const Status status = LayCanary(kind, grading, run.nonce, blobs_, &laid);
    if (!status.ok()) return Refuse(status, call.result);
    v1::ToolResult second;
    Call again{call.request, call.cancellation, {}, call.limits, call.text_limit, &second};
    InBox(again, laid, options.limits, /*fresh=*/true,
          [&](Box& box, v1::ToolResult* report) { return RunGradingCommand(run, box, report); });
    if (second.outcome() == v1::OUTCOME_UNAVAILABLE) {
      result = std::move(second);
      return;
    }
    result.set_wall_ms(result.wall_ms() + second.wall_ms());
    result.set_cpu_ms(result.cpu_ms() + second.cpu_ms());
    if (run.held) continue;
    result.set_tests_passed(0);
    result.set_outcome(v1::OUTCOME_FAILED);
    result.clear_failures();
    v1::TestFailure& failure = *result.add_failures();
    failure.set_name("canary");
    failure.set_actual(
        "the submission passes tests that cannot pass: it ends or patches them, equals whatever "
        "is expected, or reads it where the tests are");
    return;
  }
}

}  // namespace tidemill
