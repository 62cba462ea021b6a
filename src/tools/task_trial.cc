#include "tools/task_trial.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/enum_name.h"
#include "core/mutex.h"
#include "core/text.h"
#include "tools/box/box_pool.h"
#include "tools/box/kept_boxes.h"
#include "tools/command_grader.h"
#include "tools/patch.h"
#include "tools/tool_runner.h"

namespace tidemill {
namespace {

constexpr std::string_view kSolutionTool = "solution";  // a command tool of ours
constexpr size_t kOutputBytes = 2000;

std::string ShellQuoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string JsonQuoted(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

bool HasWeight(const v1::Task& task, std::string_view scorer) {
  return std::any_of(task.weights().begin(), task.weights().end(),
                     [&](const v1::ScorerWeight& one) { return one.scorer() == scorer; });
}

// One task, on one thread.
class Trial {
 public:
  Trial(const v1::Task& task, ToolRunner& runner, BlobStore& blobs)
      : task_(task), runner_(runner), blobs_(blobs) {
    trial_.task = task.id();
  }

  TaskTrial Run() {
    const Status status = Try();
    if (!status.ok()) trial_.problems.push_back(status.message());
    return std::move(trial_);
  }

 private:
  struct Graded {
    uint32_t passed = 0;
    uint32_t total = 0;
    bool all() const { return total > 0 && passed == total; }
    bool operator==(const Graded&) const = default;
  };

  Status Try() {
    TM_ASSIGN_OR_RETURN(const Workspace start, LoadWorkspace(v1::Tree(), task_.files(), &blobs_));
    const bool cases = task_.grading().cases_size() > 0;
    const bool command = task_.grading().mode() == v1::Grading::MODE_COMMAND;
    lint_ = !cases && !command && HasWeight(task_, "lint");
    trial_.has_tests = cases || command || lint_;
    trial_.has_solution = task_.has_solution() && task_.solution().ByteSizeLong() > 0;
    if (!trial_.has_tests) return Ok();
    Workspace solved = start;
    if (trial_.has_solution) {
      TM_ASSIGN_OR_RETURN(solved, Solve(start));
    }
    CountFiles(solved);
    TM_ASSIGN_OR_RETURN(const Graded untouched, Grade(start, "untouched workspace", false));
    trial_.tests = untouched.total;
    trial_.untouched_passed = untouched.passed;
    if (untouched.all()) {
      trial_.problems.push_back("the untouched workspace passes: there is nothing to learn");
    }
    const Workspace& again = trial_.has_solution ? solved : start;
    const std::string what = trial_.has_solution ? "reference solution" : "untouched workspace";
    Graded first = untouched;
    if (trial_.has_solution) {
      TM_ASSIGN_OR_RETURN(first, Grade(solved, what, true));
      trial_.tests = std::max(trial_.tests, first.total);
      trial_.solved_passed = first.passed;
    }
    TM_ASSIGN_OR_RETURN(const Graded second, Grade(again, what, trial_.has_solution));
    if (trial_.has_solution && !first.all()) {
      trial_.problems.push_back("the reference solution passes " + std::to_string(first.passed) +
                                " of " + std::to_string(first.total) + " tests");
    }
    if (!(first == second)) {
      trial_.problems.push_back("not stable: the " + what + " passes " +
                                std::to_string(first.passed) + " and then " +
                                std::to_string(second.passed) + " tests");
    }
    return Ok();
  }

  Result<Workspace> Solve(Workspace files) {
    const v1::Solution& solution = task_.solution();
    if (!solution.patch().empty()) {
      auto report = ApplyPatch(solution.patch(), &files);
      if (!report.ok()) return report.status().WithContext("solution.patch");
    }
    TM_ASSIGN_OR_RETURN(const Workspace own, LoadWorkspace(v1::Tree(), solution.files(), &blobs_));
    for (const auto& [path, file] : own) files[path] = file;
    if (!solution.answer().empty()) {
      files[task_.answer_file()].content =
          task_.answer_prefix() + solution.answer() + task_.answer_suffix();
    }
    return solution.command().empty() ? Result<Workspace>(std::move(files)) : RunSolution(files);
  }

  Result<Workspace> RunSolution(const Workspace& files) {
    std::string script;
    for (const std::string& word : task_.solution().command()) script += ShellQuoted(word) + " ";
    TM_ASSIGN_OR_RETURN(v1::ToolRequest request, RequestFor(files, std::string(kSolutionTool)));
    request.set_arguments_json("{\"script\":" + JsonQuoted(script) + "}");
    Cancellation never;
    const v1::ToolResult result = runner_.Handle(request, never);
    if (result.outcome() != v1::OUTCOME_OK) {
      trial_.output = result.text();
      return Invalid("solution.command ended with " + EnumName(result.outcome()));
    }
    return LoadWorkspace(result.tree(), {}, &blobs_);
  }

  Result<v1::ToolRequest> RequestFor(const Workspace& files, const std::string& tool) {
    v1::ToolRequest request;
    request.set_request_id(task_.id() + "." + std::to_string(next_++));
    request.set_tool(tool);
    request.set_arguments_json("{}");
    request.set_root(task_.root());
    *request.mutable_limits() = tool == "grade" ? task_.grading().limits() : task_.limits();
    TM_ASSIGN_OR_RETURN(*request.mutable_tree(), StoreWorkspace(files, &blobs_));
    return request;
  }

  // As training grades it. For lint a finding less is a test more.
  Result<Graded> Grade(const Workspace& files, const std::string& what, bool must_pass) {
    TM_ASSIGN_OR_RETURN(v1::ToolRequest request, RequestFor(files, lint_ ? "lint" : "grade"));
    if (lint_) {
      std::string names;
      for (const std::string& path : task_.grading().sources()) {
        names += (names.empty() ? "" : ",") + JsonQuoted(path);
      }
      if (!names.empty()) request.set_arguments_json("{\"files\":[" + names + "]}");
    } else {
      *request.mutable_grading() = task_.grading();
    }
    Cancellation never;
    const v1::ToolResult result = runner_.Handle(request, never);
    trial_.grading_ms = std::max(trial_.grading_ms, result.wall_ms());
    if (result.outcome() == v1::OUTCOME_UNAVAILABLE) {
      return Unavailable("grading the " + what + " is not possible here: " + result.cause());
    }
    Graded graded{result.tests_passed(), result.tests_total()};
    if (lint_) {
      graded = {result.outcome() == v1::OUTCOME_OK && result.diagnostics_size() == 0 ? 1u : 0u, 1};
    }
    if (must_pass && !graded.all() && trial_.output.empty()) {
      trial_.output = Beginning(OutputOf(result), kOutputBytes);
    }
    return graded;
  }

  static std::string OutputOf(const v1::ToolResult& result) {
    std::string text = result.text();
    for (const v1::TestFailure& failure : result.failures()) {
      if (!failure.actual().empty()) text += "\n" + failure.name() + ": " + failure.actual();
    }
    return text + "\n" + result.stderr_bytes();
  }

  void CountFiles(const Workspace& files) {
    const v1::Grading& grading = task_.grading();
    trial_.files_of_task = static_cast<uint64_t>(grading.harness_size());
    v1::Grading without_ours = grading;
    without_ours.clear_harness();
    const bool command = grading.mode() == v1::Grading::MODE_COMMAND;
    auto entering = command ? CommandGradingFiles(without_ours, files, &blobs_)
                            : GradingFiles(without_ours, files, &blobs_);
    if (!entering.ok()) return;
    trial_.files_read = entering->size();
    trial_.files_left_out = files.size() - entering->size();
  }

  const v1::Task& task_;
  ToolRunner& runner_;
  BlobStore& blobs_;
  TaskTrial trial_;
  bool lint_ = false;
  int next_ = 0;
};

}  // namespace

Result<std::vector<TaskTrial>> TryTasks(const std::vector<v1::Task>& tasks,
                                        const TrialOptions& options, BlobStore& blobs,
                                        const Clock& clock,
                                        const std::function<void(const TaskTrial&)>& done) {
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<BoxHost> host, BoxHost::Create(options.boxes));
  const size_t jobs = std::max<size_t>(1, std::min(options.jobs, tasks.size()));
  BoxPool pool(*host, jobs);
  RootPools roots(pool, options.boxes, options.roots);
  KeptBoxes kept(1, std::chrono::seconds(1));
  ShellBoxes shells(1, std::chrono::seconds(1));
  ToolOptions tools = options.tools;
  CommandTool solution;
  solution.name = kSolutionTool;
  solution.command = {"/bin/sh", "-c", "{script}"};
  tools.commands.push_back(std::move(solution));
  McpServers servers(tools.mcp);
  ToolRunner runner(pool, roots, kept, shells, servers, &blobs, clock, std::move(tools));
  std::vector<TaskTrial> trials(tasks.size());
  std::atomic<size_t> next{0};
  Mutex telling;
  const auto work = [&] {
    for (size_t i = next++; i < tasks.size(); i = next++) {
      trials[i] = Trial(tasks[i], runner, blobs).Run();
      const MutexLock lock(telling);
      if (done) done(trials[i]);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < jobs; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return trials;
}

}  // namespace tidemill
