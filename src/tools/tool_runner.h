// Carries out one tool request from the files that go in to the result that comes out.
//
//   request -> workspace -> box (fresh from the pool, or the episode's own) -> command -> parser ->
//   result
//
// Requests are stateless: the workspace is put into an emptied box every time, so a kept box saves
// its opening and nothing else depends on it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "proto/tidemill.pb.h"
#include "store/blobs.h"
#include "tools/box/box_pool.h"
#include "tools/box/kept_boxes.h"
#include "tools/grader.h"
#include "tools/python/python_nursery.h"
#include "tools/root_pools.h"
#include "tools/shell_boxes.h"
#include "tools/tool_options.h"
#include "tools/workspace.h"

namespace tidemill {

struct CommandRun;

// Ends a request from another thread. Thread-safe.
class Cancellation {
 public:
  void Cancel() {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (box_ != nullptr) box_->Kill();
  }
  bool cancelled() const {
    MutexLock lock(mutex_);
    return cancelled_;
  }
  // The box to end on Cancel; null: none. It must be there until this is called again.
  void Watch(Box* box) {
    MutexLock lock(mutex_);
    box_ = box;
    if (cancelled_ && box_ != nullptr) box_->Kill();
  }

 private:
  mutable Mutex mutex_;
  bool cancelled_ TM_GUARDED_BY(mutex_) = false;
  Box* box_ TM_GUARDED_BY(mutex_) = nullptr;
};

// A tool's work in a box. Fills in the result; true: the machine was too busy for it to count.
using BoxWork = std::function<bool(Box& box, v1::ToolResult* result)>;

// Thread-safe: every request has its own box.
class ToolRunner {
 public:
  // Everything must outlive it. `blobs` may be null where no content travels by hash.
  ToolRunner(BoxPool& pool, RootPools& roots, KeptBoxes& kept, ShellBoxes& shells,
             McpServers& servers, BlobStore* blobs, const Clock& clock, ToolOptions options);

  // Never fails: what is wrong is in the result.
  v1::ToolResult Handle(const v1::ToolRequest& request, Cancellation& cancellation);

  const ToolOptions& options() const { return options_; }

 private:
  struct Call {
    const v1::ToolRequest& request;
    Cancellation& cancellation;
    Workspace workspace;
    BoxLimits limits;
    size_t text_limit;
    v1::ToolResult* result;
  };

  void Dispatch(Call& call);
  void Compile(Call& call);
  void Lint(Call& call);
  void RunTests(Call& call);
  // The output of the visible tests' program, where no box is needed to know it.
  std::optional<std::vector<std::string>> Interpret(const Call& call) const;
  void Grade(Call& call);
  void RunCommand(Call& call, const CommandTool& tool);
  void AskTool(Call& call, const CommandTool& tool);
  static void AskServer(Call& call, McpServer& server);
  void GradePythonAnswer(Call& call, bool reveal);
  // The inputs of a grading; `checked` says what is wrong with them, if anything.
  Result<GradeOptions> GradeWith(const Call& call, const Status& checked) const;
  // `visible`: tests the agent runs itself; no canary, nothing to gain.
  void GradeByCommand(Call& call, bool visible);
  // Runs what passed again with each canary. One that passes takes everything away.
  void RunCanaries(Call& call, const CommandRun& first, const Workspace& files);

  // A box with the request's root, ready for Configure.
  Result<std::unique_ptr<Box>> TakeBox(const v1::ToolRequest& request);
  void Bash(Call& call);
  Result<std::unique_ptr<ShellBox>> ShellOf(Call& call);
  Result<std::unique_ptr<ShellBox>> OpenShell(Call& call);
  void RunInShell(Call& call, const RunSpec& spec, ShellBox& shell);
  void FinishShell(Call& call, std::unique_ptr<ShellBox> shell);

  // Runs `work` in a box that holds `files`; again in a fresh one if the first failed by our doing
  // or the machine was too busy.
  void InBox(Call& call, const Workspace& files, const BoxLimits& limits, bool fresh,
             const BoxWork& work);
  bool OnceInBox(Call& call, const Workspace& files, const BoxLimits& limits, bool fresh,
                 const BoxWork& work);

  RootPools& roots_;
  KeptBoxes& kept_;
  ShellBoxes& shells_;
  McpServers& servers_;
  BlobStore* blobs_;
  const Clock& clock_;
  const ToolOptions options_;
  PythonNursery nursery_;
};

// Runs a command whose program is the machine's, not the agent's. Where there is no such program
// the outcome is OUTCOME_UNAVAILABLE: a compiler that is not installed is no mistake of the
// agent's.
RunReport RunProgram(Box& box, const RunSpec& spec);

// The failure of a Status as a result: the agent's if what it sent was wrong, ours otherwise.
void Refuse(const Status& status, v1::ToolResult* result);

// Copies what a command did into a result; times add up over several commands.
void TakeReport(const RunReport& report, v1::ToolResult* result);

}  // namespace tidemill
