#include "scale/broker_fleet.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "bus/broker.h"
#include "core/mutex.h"
#include "core/topics.h"

namespace tidemill {
namespace {

double NumberOf(const v1::Heartbeat& beat, const char* name, double otherwise) {
  const auto found = beat.numbers().find(name);
  return found == beat.numbers().end() ? otherwise : found->second;
}

size_t SlotsOf(const v1::Heartbeat& beat, const char* name) {
  return static_cast<size_t>(std::clamp(NumberOf(beat, name, 1), 1.0, 1e6));
}

class BrokerFleet final : public FleetPort {
 public:
  BrokerFleet(std::string url, std::string run)
      : url_(std::move(url)), run_(std::move(run)), thread_([this] { Run(); }) {}
  ~BrokerFleet() override {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  void Ask() override {
    {
      MutexLock lock(mutex_);
      asked_ = true;
    }
    changed_.NotifyAll();
  }
  Mailbox<FleetReport>& reports() override { return reports_; }

 private:
  void Run() {
    MutexLock lock(mutex_);
    while (true) {
      changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stop_ || asked_; });
      if (stop_) return;
      asked_ = false;
      lock.Unlock();
      FleetReport report;
      report.status = Look(report);
      reports_.Post(std::move(report));
      lock.Lock();
    }
  }

  Status Look(FleetReport& report) {
    if (inspector_ == nullptr) {
      TM_ASSIGN_OR_RETURN(inspector_, ConnectInspector(url_));
    }
    TM_ASSIGN_OR_RETURN(const std::vector<RosterEntry> workers, inspector_->Workers(run_));
    for (const RosterEntry& entry : workers) {
      const v1::Heartbeat& beat = entry.beat;
      if (beat.role() != "tools" || entry.lost()) continue;
      report.workers.push_back({.name = beat.worker(),
                                .leaving = beat.leaving(),
                                .slots = SlotsOf(beat, "slots"),
                                .grade_slots = SlotsOf(beat, "grade_slots"),
                                .busy_seconds = NumberOf(beat, "busy_seconds", 0),
                                .completed = NumberOf(beat, "tool_commands", 0)});
    }
    TM_ASSIGN_OR_RETURN(const std::vector<TopicState> topics, inspector_->Topics(run_));
    report.topics = ToolLoads(topics);
    return Ok();
  }

  const std::string url_;
  const std::string run_;
  std::unique_ptr<RunInspector> inspector_;  // of the thread alone
  Mailbox<FleetReport> reports_{2};
  Mutex mutex_;
  CondVar changed_;
  bool asked_ TM_GUARDED_BY(mutex_) = false;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

std::vector<TopicLoad> ToolLoads(const std::vector<TopicState>& topics) {
  std::vector<TopicLoad> loads;
  for (const TopicState& topic : topics) {
    if (IsToolWork(topic.name))
      loads.push_back({topic.name, topic.ready + topic.delayed, topic.leased});
  }
  return loads;
}

std::unique_ptr<FleetPort> WatchBrokerFleet(const std::string& url, const std::string& run) {
  return std::make_unique<BrokerFleet>(url, run);
}

}  // namespace tidemill
