// The autoscaler keeps as many tool workers as the queues ask for.
//
//   FleetPort (depths, heartbeats) --> ScalingRule --> WorkerBackend: start, drain
//
// Workers that others started count: it only makes up the difference. Without a backend it gives
// advice: the number it would have is a metric.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "core/loop.h"
#include "scale/fleet_port.h"
#include "scale/scaling_rule.h"

namespace tidemill {

struct AutoscalerOptions {
  ScalingOptions rule;
  Duration period = std::chrono::seconds(1);         // between looks
  Duration first_service = std::chrono::seconds(1);  // of a call, before any was seen
  Duration short_life = std::chrono::seconds(10);    // a worker that ends sooner unasked has failed
  Duration backoff_max = std::chrono::minutes(1);
};

// Read from any thread.
struct ScaleCounters {
  std::atomic<uint64_t> wanted{0};    // workers there should be
  std::atomic<uint64_t> own{0};       // started here and not told to leave
  std::atomic<uint64_t> foreign{0};   // started by others
  std::atomic<uint64_t> draining{0};  // of ours, told to leave
  std::atomic<uint64_t> ready{0}, leased{0};
  std::atomic<uint64_t> service_us{0};
  std::atomic<uint64_t> started{0}, drained{0}, failed{0};
};

class Autoscaler final : public Loop {
 public:
  // `backend` may be null: advice only. Ports must outlive it.
  Autoscaler(FleetPort& fleet, WorkerBackend* backend, AutoscalerOptions options);

  std::string_view name() const override { return "scale"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // Every worker of ours is told to leave.
  void Drain() override;
  bool Drained() const override { return own_.empty(); }

  const ScaleCounters& counters() const { return counters_; }

 private:
  struct Own {
    std::string name;  // empty until it was started
    Time since;
    bool draining = false;
  };
  struct Seen {
    double busy_seconds = 0, completed = 0;
  };

  void TakeEvents(Time now);
  void TakeReports(Time now);
  void Observe(const FleetReport& report);  // service time
  void Balance(const FleetReport& report, Time now);
  void DrainNewest(size_t count);
  size_t OwnHere() const;
  void Publish(size_t foreign);

  FleetPort& fleet_;
  WorkerBackend* backend_;
  const AutoscalerOptions options_;
  ScalingRule rule_;
  std::map<uint64_t, Own> own_;       // by id: the newest is last
  std::map<std::string, Seen> seen_;  // by worker
  Duration service_;
  Time ask_at_ = Time::min();
  bool asked_ = false;
  bool draining_ = false;
  Time start_at_ = Time::min();  // not before: workers failed
  int failures_ = 0;             // in a row
  uint64_t next_id_ = 1;
  ScaleCounters counters_;
};

}  // namespace tidemill
