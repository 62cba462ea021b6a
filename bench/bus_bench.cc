#include "bench/bus_bench.h"

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/bare_rabbit.h"
#include "bench/bare_redis.h"
#include "bus/broker.h"
#include "bus/memory/memory_bus.h"

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
Result<double> MeasureBroker(const BusBenchOptions& options, const std::string& url,
                             const std::string& run) {
  TM_ASSIGN_OR_RETURN(const auto bus, ConnectBus({.url = url, .run = run, .client = ""}));
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

Result<double> MeasureBare(const BusBenchOptions& options, const std::string& url,
                           const std::string& run) {
  return url.starts_with("amqp") ? MeasureBareRabbit(url, run, options.payload_bytes, options.time)
                                 : MeasureBareRedis(url, run, options.payload_bytes, options.time);
}

// The two take turns, so that what else the machine does falls on both.
Result<BrokerRates> MeasureBoth(const BusBenchOptions& options, const std::string& url) {
  const std::string run = "bench-" + std::to_string(std::random_device{}());
  constexpr int kTurns = 3;
  BrokerRates rates;
  rates.broker = url.starts_with("amqp") ? "rabbitmq" : "redis";
  for (int turn = 0; turn < kTurns; ++turn) {
    TM_ASSIGN_OR_RETURN(const double bus, MeasureBroker(options, url, run));
    TM_ASSIGN_OR_RETURN(const double bare, MeasureBare(options, url, run));
    rates.round_trips_per_s += bus / kTurns;
    rates.bare_round_trips_per_s += bare / kTurns;
  }
  TM_RETURN_IF_ERROR(RemoveRun(url, run));
  return rates;
}

}  // namespace

Result<BusBenchReport> RunBusBench(const BusBenchOptions& options) {
  BusBenchReport report;
  report.payload_bytes = options.payload_bytes;
  TM_ASSIGN_OR_RETURN(report.memory_round_trips_per_s, MeasureMemory(options));
  for (const std::string& url : options.urls) {
    TM_ASSIGN_OR_RETURN(BrokerRates rates, MeasureBoth(options, url));
    report.brokers.push_back(std::move(rates));
  }
  return report;
}

std::string BusBenchReport::ToText() const {
  std::string text = fmt::format("bus, {} byte payloads, publish + receive + ack\n", payload_bytes);
  text += fmt::format("  memory         {:>12.0f} /s\n", memory_round_trips_per_s);
  for (const BrokerRates& rates : brokers) {
    text += fmt::format("  {:<14} {:>12.0f} /s\n", rates.broker, rates.round_trips_per_s);
    text += fmt::format("  {:<14} {:>12.0f} /s\n", "bare client", rates.bare_round_trips_per_s);
    text += fmt::format("  {:<14} {:>12.2f}\n", rates.broker + "/bare", rates.ratio());
  }
  return text;
}

std::string BusBenchReport::ToJson() const {
  nlohmann::json json = {{"payload_bytes", payload_bytes},
                         {"memory_round_trips_per_s", memory_round_trips_per_s}};
  for (const BrokerRates& rates : brokers) {
    json[rates.broker + "_round_trips_per_s"] = rates.round_trips_per_s;
    json[rates.broker + "_bare_round_trips_per_s"] = rates.bare_round_trips_per_s;
    json[rates.broker + "_ratio"] = rates.ratio();
  }
  return json.dump();
}

}  // namespace tidemill
