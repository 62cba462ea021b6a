#include "tools/boxed_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/enum_name.h"
#include "core/text.h"

namespace tidemill {
namespace {

constexpr Duration kServes = std::chrono::hours(240);  // then it is started again
constexpr Duration kLooks = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kFarewellOfServer{500};
constexpr size_t kErrorsKept = 4096;
constexpr size_t kErrorsShown = 500;

Status OpenPipe(Fd& reads, Fd& writes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Unavailable(std::string("pipe: ") + strerror(errno));
  reads = Fd(ends[0]);
  writes = Fd(ends[1]);
  return Ok();
}

}  // namespace

Result<std::unique_ptr<BoxedServer>> BoxedServer::Start(BoxHost& host, const Program& program) {
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Box> box, host.Open());
  TM_RETURN_IF_ERROR(box->Configure(program.limits));
  std::unique_ptr<BoxedServer> server(new BoxedServer(std::move(box)));
  CommandPipes theirs;
  TM_RETURN_IF_ERROR(OpenPipe(theirs.input, server->ours_.input));
  TM_RETURN_IF_ERROR(OpenPipe(server->ours_.output, theirs.output));
  RunSpec spec;
  spec.command = program.command;
  spec.environment = program.environment;
  spec.limits = program.limits;
  spec.limits.wall = spec.limits.cpu = kServes;
  spec.limits.output_bytes = UINT64_MAX;  // what it logs; only the last of it is kept
  spec.keep_bytes = kErrorsKept;
  spec.tick = kLooks;
  server->thread_ = std::thread(
      [made = server.get(), spec = std::move(spec), theirs = std::move(theirs)]() mutable {
        made->Run(std::move(spec), std::move(theirs));
      });
  return server;
}

void BoxedServer::Run(RunSpec spec, CommandPipes theirs) {
  spec.pipes = &theirs;
  RunReport report = box_->Run(spec);
  MutexLock lock(mutex_);
  report_ = std::move(report);
  ended_ = true;
  changed_.NotifyAll();
}

std::string BoxedServer::End() {
  ours_ = {};
  {
    MutexLock lock(mutex_);
    (void)changed_.WaitFor(lock, kFarewellOfServer,
                           [this]() TM_REQUIRES(mutex_) { return ended_; });
  }
  box_->Kill();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  std::string how = report_.outcome == v1::OUTCOME_UNAVAILABLE
                        ? report_.cause
                        : fmt::format("{} {}", EnumName(report_.outcome), report_.exit_code);
  const std::string errors = ToUtf8(report_.err);
  if (!errors.empty()) {
    how += ": " + errors.substr(errors.size() - std::min(errors.size(), kErrorsShown));
  }
  return how;
}

BoxedServer::~BoxedServer() {
  box_->Kill();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tidemill
