#include "bench/bus_bench.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

}  // namespace

Result<BusBenchReport> RunBusBench(const BusBenchOptions& options) {
  BusBenchReport report;
  report.payload_bytes = options.payload_bytes;
  TM_ASSIGN_OR_RETURN(report.memory_round_trips_per_s, MeasureMemory(options));
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
