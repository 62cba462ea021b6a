#include "observe/weights_figures.h"

#include <fmt/format.h>

#include <utility>

namespace tidemill {
namespace {

constexpr const char* kWays[] = {"shm", "files", "bus"};

constexpr std::pair<const char*, double WayFigures::*> kWayNumbers[] = {
    {"versions", &WayFigures::versions},
    {"version", &WayFigures::version},
    {"bytes", &WayFigures::bytes},
    {"whole", &WayFigures::whole},
    {"density", &WayFigures::density},
    {"seconds", &WayFigures::seconds},
    {"bytes_total", &WayFigures::bytes_total}};

std::string NumberName(const std::string& way, const char* number) {
  return "weights_" + way + "_" + number;
}

}  // namespace

std::map<std::string, double> NumbersOf(const std::vector<WayFigures>& ways) {
  std::map<std::string, double> numbers;
  for (const WayFigures& way : ways) {
    for (const auto& [name, of] : kWayNumbers) numbers[NumberName(way.way, name)] = way.*of;
  }
  return numbers;
}

std::vector<WayFigures> WaysIn(const v1::Heartbeat& beat) {
  std::vector<WayFigures> ways;
  for (const char* name : kWays) {
    WayFigures way{.way = name};
    for (const auto& [number, of] : kWayNumbers) {
      const auto found = beat.numbers().find(NumberName(name, number));
      if (found != beat.numbers().end()) way.*of = found->second;
    }
    if (way.versions > 0) ways.push_back(std::move(way));
  }
  return ways;
}

void SinkWays(const std::vector<WayFigures>& ways, MetricSink& sink) {
  for (const WayFigures& way : ways) {
    const Labels labels = {{"way", way.way}};
    sink.Counter("tidemill_weights_versions_total", "Versions published to other processes",
                 way.versions, labels);
    sink.Counter("tidemill_weights_bytes_total",
                 "Bytes published to other processes; of a delta, the delta's", way.bytes_total,
                 labels);
    sink.Gauge("tidemill_weights_bytes", "Bytes of the last publication", way.bytes, labels);
    sink.Gauge("tidemill_weights_whole_bytes", "Bytes of the last version as a whole", way.whole,
               labels);
    sink.Gauge("tidemill_weights_density",
               "Share of numbers that the last version changed; 1 where that is not known",
               way.density, labels);
    sink.Gauge("tidemill_weights_seconds", "Time that the last publication took", way.seconds,
               labels);
  }
}

std::string WaysText(const std::vector<WayFigures>& ways) {
  if (ways.empty()) return "";
  std::string text = fmt::format("{:<8} {:>8} {:>8} {:>12} {:>12} {:>9} {:>9}\n", "WEIGHTS", "SENT",
                                 "VERSION", "MB", "WHOLE MB", "CHANGED", "SECONDS");
  for (const WayFigures& way : ways) {
    text += fmt::format("{:<8} {:>8.0f} {:>8.0f} {:>12.3f} {:>12.3f} {:>8.2f}% {:>9.3f}\n", way.way,
                        way.versions, way.version, way.bytes / 1e6, way.whole / 1e6,
                        100 * way.density, way.seconds);
  }
  return text;
}

}  // namespace tidemill
