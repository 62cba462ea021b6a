// The part of a process's ports that records sessions, learns from them and guards what is served.
#include <algorithm>

#include "core/files.h"
#include "core/secret.h"
#include "gateway/plain_recorder.h"
#include "run/live_options.h"
#include "run/loop_options.h"
#include "run/torch/process_ports.h"
#include "store/case_reader.h"

namespace tidemill {
namespace {

using MakeRecorder =
    std::function<Result<std::unique_ptr<TurnRecorder>>(const ServedPolicy& policy)>;

// What `make` gives, or a recorder that keeps nothing, inside of what `wrap` makes of it.
template <typename Wrap>
MakeRecorder Around(MakeRecorder make, Wrap wrap) {
  return [make = std::move(make),
          wrap](const ServedPolicy& policy) -> Result<std::unique_ptr<TurnRecorder>> {
    std::unique_ptr<TurnRecorder> recorder = std::make_unique<PlainRecorder>(policy);
    if (make) {
      TM_ASSIGN_OR_RETURN(recorder, make(policy));
    }
    return std::unique_ptr<TurnRecorder>(wrap(std::move(recorder)));
  };
}

}  // namespace

Status ProcessPorts::OpenOperator(GatewayUse& use) {
  TM_ASSIGN_OR_RETURN(LiveOperator made, LiveOperator::Make(request_.directory->path()));
  operator_.emplace(std::move(made));
  use.operate = [this](const HttpRequest& request) { return operator_->Answer(request); };
  return Ok();
}

Result<std::unique_ptr<TurnRecorder>> ProcessPorts::OpenLive(const ServedPolicy& policy) {
  TM_ASSIGN_OR_RETURN(const LiveOptions options, LiveOptionsFrom(config_));
  LiveLearning learning;
  learning.bus = ports_.bus;
  learning.signals = SignalOptionsFrom(config_, train_tasks_, request_.directory->path());
  learning.next_state = NextStateOptionsFrom(config_);
  learning.next_state.secret = NewSecret();
  if (shelf_) learning.memory = LiveMemoryHere(policy.context_tokens);
  TM_ASSIGN_OR_RETURN(std::unique_ptr<LiveRun> live,
                      LiveRun::Join(*store_, *earlier_live_, policy, clock_, options, learning));
  live->BelongsTo(request_.directory->path());
  live->Add({"votes of judges", [this](const EraseNames& names) -> Result<uint64_t> {
               uint64_t erased = 0;
               for (const uint64_t session : names.sessions)
                 erased += votes_.EraseSession(JudgedSession(session));
               return erased;
             }});
  if (shelf_) {
    live->Add({"cases in memory", [this](const EraseNames& names) {
                 return shelf_->Erase(names.sessions,
                                      [this] { return ReadCases(request_.directory->db_path()); });
               }});
  }
  *earlier_live_ = {};
  live_ = live.get();
  operator_->Add("/live/delete", DeleteDeed(*live_));
  operator_->Add("/live/quarantine", QuarantineDeed(*live_));
  return std::unique_ptr<TurnRecorder>(std::move(live));
}

// Most of the context is the client's, whatever the config says.
LiveMemory ProcessPorts::LiveMemoryHere(int64_t context_tokens) const {
  const MemoryOptions options = MemoryOptionsFrom(config_);
  LiveMemory memory;
  memory.case_tokens =
      std::min<size_t>(options.case_tokens, static_cast<size_t>(context_tokens) / 4);
  memory.look = [shelf = shelf_.get(), how = options.how, cases = options.cases](
                    const std::string& tenant, const std::string& prompt) {
    return shelf->Look({.tenant = tenant, .prompt = prompt, .how = how, .cases = cases});
  };
  return memory;
}

Status ProcessPorts::OpenRelease(const RunStart& start, GatewayUse& use) {
  if (!alone() || request_.directory == nullptr) {
    return Invalid("live.release needs learner and gateway in one process: tidemill train");
  }
  clients_.push_back(store_->NewClient(kStoreClientCapacity));
  const std::string& folder = request_.directory->path();
  ReleaseStart begin{.options = ReleaseOptionsFrom(config_),
                     .version = start.version,
                     .step = start.step,
                     .every_steps = config_.eval.every_steps,
                     .file = ReleaseFile(folder),
                     .earlier = earlier_release_};
  release_ = std::make_unique<ReleaseDesk>(begin, *engine_, *clients_.back(), clock_);
  TM_RETURN_IF_ERROR(release_->Start());
  ports_.release = release_.get();
  ports_.versions.push_back(release_.get());
  operator_->Add("/live/rollback", RollbackDeed(*release_));
  use.recorder = Around(use.recorder, [this](std::unique_ptr<TurnRecorder> inner) {
    return std::make_unique<ReleasedRecorder>(std::move(inner), *release_);
  });
  return Ok();
}

void ProcessPorts::OpenGuards(GatewayUse& use) {
  guards_ = std::make_unique<GuardDesk>(AlarmOptionsFrom(config_),
                                        GuardsFile(request_.directory->path()), clock_);
  ports_.versions.push_back(guards_.get());
  use.recorder = Around(use.recorder, [this](std::unique_ptr<TurnRecorder> inner) {
    if (live_ != nullptr) guards_->ShowQuarantine([this] { return live_->QuarantineJson(); });
    return std::make_unique<WatchedRecorder>(std::move(inner), *guards_);
  });
}

std::vector<LiveWatch*> ProcessPorts::watches() {
  std::vector<LiveWatch*> watches;
  if (release_) watches.push_back(release_.get());
  if (guards_) watches.push_back(guards_.get());
  return watches;
}

}  // namespace tidemill
