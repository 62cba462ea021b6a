// What the parts of a process share: its config, its clock, and what they give to its loops. Each
// part is a Host (run/host.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/journal.h"
#include "core/metrics.h"
#include "core/threads.h"
#include "judge/vote_cache.h"
#include "model/tokenizer.h"
#include "rollout/protocol.h"
#include "run/assembly.h"
#include "run/host.h"
#include "run/loop_options.h"
#include "run/run_config.h"
#include "run/run_sheet.h"
#include "store/run_directory.h"

namespace tidemill {

class Gateway;
class LiveWatch;
class BrokerBus;
class WeightChannel;
class WeightPublisher;

// What a process is asked to be, besides the config.
struct RunRequest {
  Roles roles = Roles::All();
  bool train = true;  // false: only the evaluations "before"
  bool resume = false;
  std::string eval_prefix;            // put before the names of evaluations
  RunDirectory* directory = nullptr;  // of the learner
  Journal* journal = nullptr;         // of the learner
  Metrics* metrics = nullptr;         // may be null; must outlive the run
  // Not null: the other roles are processes on this bus, which must outlive the run.
  BrokerBus* fleet = nullptr;
  std::string worker;   // its name there
  std::string bus_url;  // and where that is
  SheetKeys keys;       // of the run's sheet
};

class Process {
 public:
  Process(RunConfig settled, const RunRequest& asked) : config(std::move(settled)), request(asked) {
    ports.clock = &clock;
    ports.journal = request.journal != nullptr ? request.journal : &no_journal;
  }
  // In reverse.
  ~Process() {
    while (!hosts_.empty()) hosts_.pop_back();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Makes the host, which lives as long as the process, and opens it. Failures name the file or
  // key.
  template <typename T, typename... More>
  Result<T*> Open(More... more) {
    auto made = std::make_unique<T>(*this);
    T* const host = made.get();
    hosts_.push_back(std::move(made));
    TM_RETURN_IF_ERROR(host->Open(more...));
    return host;
  }
  const std::vector<std::unique_ptr<Host>>& hosts() const { return hosts_; }
  // Every role is here.
  bool alone() const { return request.fleet == nullptr; }

  const RunConfig config;  // with nothing left open (run/torch/settle_config.h)
  const RunRequest request;
  const RealClock clock;
  std::vector<std::string> warnings;  // for people
  ThreadPlan threads;
  std::optional<Tokenizer> tokenizer;       // of learner and rollout
  std::unique_ptr<AgentProtocol> protocol;  // of learner and rollout
  VoteCaches votes;                         // of judges; deletions of sessions reach it

  // For the loops; each host adds its own.
  Ports ports;
  RunStart start;
  // For who drives the run. Null, or empty: there is none.
  Gateway* gateway = nullptr;
  WeightPublisher* publisher = nullptr;         // where other processes get the weights
  std::map<PolicyId, WeightChannel*> channels;  // to the engine, of policies beside the default one
  std::vector<LiveWatch*> watches;              // what watches a run that serves clients
  std::function<int()> ranks_lost;              // of the learner: those that died or hung

 private:
  NullJournal no_journal;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace tidemill
