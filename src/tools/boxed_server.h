// A server that is a program in a box: it runs until nobody needs it any more, and is talked to by
// its standard input and output.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "tools/box/box.h"
#include "tools/box/box_host.h"

namespace tidemill {

class BoxedServer {
 public:
  struct Program {
    std::vector<std::string> command;
    std::vector<std::string> environment{};  // "NAME=value"
    BoxLimits limits{};                      // of memory, processes and disk; time is none
  };
  // `host` must outlive it. kUnavailable: there is no box.
  static Result<std::unique_ptr<BoxedServer>> Start(BoxHost& host, const Program& program);
  ~BoxedServer();

  // Our ends of its standard input and output; there once.
  CommandPipes TakePipes() { return std::move(ours_); }
  // From any thread.
  void Kill() { box_->Kill(); }
  // Ends it, and says how it ended and what it wrote last to standard error: a program that is
  // ending by itself gets a moment to do so.
  std::string End();

 private:
  explicit BoxedServer(std::unique_ptr<Box> box) : box_(std::move(box)) {}
  void Run(RunSpec spec, CommandPipes theirs);

  const std::unique_ptr<Box> box_;
  CommandPipes ours_;
  Mutex mutex_;
  CondVar changed_;
  bool ended_ TM_GUARDED_BY(mutex_) = false;
  RunReport report_ TM_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tidemill
