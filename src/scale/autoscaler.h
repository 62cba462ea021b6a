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

#include "core/counters.h"
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
struct ScaleCounters : CounterSet {
  Counter wanted{*this,
                 {.key = "scale_wanted",
                  .metric = "tidemill_scale_wanted_workers",
                  .help = "Desired number of tool workers",
                  .kind = Counter::Kind::kLevel}};
  Counter own{*this,
              {.key = "scale_own",
               .metric = "tidemill_scale_workers",
               .help = "Tool workers as the autoscaler sees them",
               .kind = Counter::Kind::kLevel,
               .labels = {{"whose", "own"}}}};
  Counter foreign{*this,
                  {.key = "scale_foreign",
                   .metric = "tidemill_scale_workers",
                   .help = "Tool workers as the autoscaler sees them",
                   .kind = Counter::Kind::kLevel,
                   .labels = {{"whose", "foreign"}}}};
  Counter draining{*this,
                   {.key = "scale_draining",
                    .metric = "tidemill_scale_workers",
                    .help = "Tool workers as the autoscaler sees them",
                    .kind = Counter::Kind::kLevel,
                    .labels = {{"whose", "own_leaving"}}}};
  Counter ready{*this,
                {.key = "scale_ready",
                 .metric = "",
                 .help = "Tool requests waiting",
                 .kind = Counter::Kind::kLevel}};
  Counter leased{*this,
                 {.key = "scale_leased",
                  .metric = "",
                  .help = "Tool requests in progress",
                  .kind = Counter::Kind::kLevel}};
  Counter service_us{*this,
                     {.key = "scale_service_us",
                      .metric = "tidemill_scale_service_seconds",
                      .help = "Observed mean time of a tool call",
                      .kind = Counter::Kind::kLevel,
                      .scale = 1e-6}};
  Counter started{*this,
                  {.key = "scale_started",
                   .metric = "tidemill_scale_started_total",
                   .help = "Tool workers started"}};
  Counter drained{*this,
                  {.key = "scale_drained",
                   .metric = "tidemill_scale_drained_total",
                   .help = "Tool workers that were stopped and left in order"}};
  Counter failed{*this,
                 {.key = "scale_failed",
                  .metric = "tidemill_scale_failed_total",
                  .help = "Tool workers that exited unexpectedly"}};
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
