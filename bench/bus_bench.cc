#include "bench/bus_bench.h"

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/bare_redis.h"
#include "bus/memory/memory_bus.h"
#include "bus/redis/redis_bus.h"

namespace tidemill {
namespace {

Result<double> MeasureMemory(const BusBenchOptions& options) {
  RealClock clock;
  MemoryBus bus(clock);
  TM_RETURN_IF_ERROR(bus.Open("bench", {}));
  const std::string payload(options.payload_bytes, 'x');
  const Time start = clock.Now();
  size_t done = 0;
  while (clock.Now() - start < options.time) {
    for (int i = 0; i < 1000; ++i) {
      TM_RETURN_IF_ERROR(bus.Publish("bench", payload));
      TM_ASSIGN_OR_RETURN(auto leases, bus.Receive("bench", 1));
      if (leases.size() != 1) return Internal("what was published did not come");
      TM_RETURN_IF_ERROR(bus.Ack(leases[0]));
    }
    done += 1000;
  }
  return static_cast<double>(done) / Seconds(clock.Now() - start);
}

// A waker that only remembers: the measuring thread polls, as a loop with much to do does.
class Flag final : public Waker {
 public:
  void Wake() override {
    woken_ = true;
    woken_.notify_one();
  }
  void Wait() {
    woken_.wait(false);
    woken_ = false;
  }

 private:
  std::atomic<bool> woken_ = false;
};

constexpr size_t kOnTheirWay = 2048;
constexpr size_t kReceive = 256;

// One thread publishes, receives and acknowledges with some messages always on their way.
Result<double> MeasureRedis(const BusBenchOptions& options, const std::string& run) {
  RedisBusOptions bus_options;
  bus_options.url = options.redis_url;
  bus_options.run = run;
  TM_ASSIGN_OR_RETURN(auto bus, RedisBus::Connect(bus_options));
  TM_RETURN_IF_ERROR(bus->Open("bench", {}));
  TM_RETURN_IF_ERROR(bus->Flush(std::chrono::seconds(5)));
  Flag arrived;
  bus->Subscribe("bench", arrived);
  const std::string payload(options.payload_bytes, 'x');
  RealClock clock;
  const Time start = clock.Now();
  size_t published = 0, done = 0;
  Status status;
  while (status.ok() && clock.Now() - start < options.time) {
    while (status.ok() && published - done < kOnTheirWay) {
      status = bus->Publish("bench", payload);
      ++published;
    }
    auto leases = bus->Receive("bench", kReceive);
    if (!leases.ok()) {
      status = leases.status();
      break;
    }
    for (const Lease& lease : *leases) {
      if (status.ok()) status = bus->Ack(lease);
    }
    done += leases->size();
    if (leases->empty()) arrived.Wait();
  }
  if (status.ok()) status = bus->Flush(std::chrono::seconds(10));
  const double rate = static_cast<double>(done) / Seconds(clock.Now() - start);
  bus->Unsubscribe(arrived);
  if (!status.ok()) return status;
  return rate;
}

// The two take turns, so that what else the machine does falls on both.
Status MeasureBoth(const BusBenchOptions& options, BusBenchReport& report) {
  const std::string run = "bench-" + std::to_string(std::random_device{}());
  constexpr int kTurns = 3;
  for (int turn = 0; turn < kTurns; ++turn) {
    TM_ASSIGN_OR_RETURN(const double bus, MeasureRedis(options, run));
    TM_ASSIGN_OR_RETURN(const double bare, MeasureBareRedis(options.redis_url, run,
                                                            options.payload_bytes, options.time));
    report.redis_round_trips_per_s += bus / kTurns;
    report.bare_round_trips_per_s += bare / kTurns;
  }
  report.redis_ratio = report.redis_round_trips_per_s / report.bare_round_trips_per_s;
  return RemoveRedisRun(options.redis_url, run);
}

}  // namespace

Result<BusBenchReport> RunBusBench(const BusBenchOptions& options) {
  BusBenchReport report;
  report.payload_bytes = options.payload_bytes;
  TM_ASSIGN_OR_RETURN(report.memory_round_trips_per_s, MeasureMemory(options));
  if (!options.redis_url.empty()) TM_RETURN_IF_ERROR(MeasureBoth(options, report));
  return report;
}

std::string BusBenchReport::ToText() const {
  std::string text = fmt::format("bus, {} byte payloads, publish + receive + ack\n", payload_bytes);
  text += fmt::format("  memory         {:>12.0f} /s\n", memory_round_trips_per_s);
  if (redis_round_trips_per_s > 0) {
    text += fmt::format("  redis          {:>12.0f} /s\n", redis_round_trips_per_s);
    text += fmt::format("  bare hiredis   {:>12.0f} /s\n", bare_round_trips_per_s);
    text += fmt::format("  redis / bare   {:>12.2f}\n", redis_ratio);
  }
  return text;
}

std::string BusBenchReport::ToJson() const {
  nlohmann::json json = {{"payload_bytes", payload_bytes},
                         {"memory_round_trips_per_s", memory_round_trips_per_s}};
  if (redis_round_trips_per_s > 0) {
    json["redis_round_trips_per_s"] = redis_round_trips_per_s;
    json["bare_round_trips_per_s"] = bare_round_trips_per_s;
    json["redis_ratio"] = redis_ratio;
  }
  return json.dump();
}

}  // namespace tidemill
