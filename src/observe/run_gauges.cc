#include "observe/run_gauges.h"

#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

// Prometheus wants all samples of a name together.
using Samples = std::map<std::string, std::string>;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string Name(const std::string& text) {
  std::string out;
  for (const char c : text) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out;
}

void Add(Samples& samples, const std::string& name, const std::string& labels,
         const nlohmann::ordered_json& value) {
  if (value.is_number()) samples[name] += name + "{" + labels + "} " + value.dump() + "\n";
}

bool Cut(std::string& text, const std::string& prefix) {
  if (text.rfind(prefix, 0) != 0) return false;
  text.erase(0, prefix.size());
  return true;
}

}  // namespace

std::string RunGauges(const std::string& run, const MetricsFile& metrics) {
  const std::string base = "run=\"" + Escaped(run) + "\"";
  Samples samples;
  const auto tick = metrics.Series("tick").Newest();
  for (const auto& [key, value] : tick.items()) {
    std::string rest = key;
    if (Cut(rest, "busy_port_")) {
      Add(samples, "tidemill_busy_share", base + ",kind=\"port\",name=\"" + Escaped(rest) + "\"",
          value);
    } else if (Cut(rest, "busy_loop_")) {
      Add(samples, "tidemill_busy_share", base + ",kind=\"loop\",name=\"" + Escaped(rest) + "\"",
          value);
    } else if (Cut(rest, "depth_")) {
      Add(samples, "tidemill_queue_depth", base + ",topic=\"" + Escaped(rest) + "\"", value);
    } else {
      Add(samples, "tidemill_run_" + Name(key), base, value);
    }
  }
  const auto step = metrics.Series("step").Newest();
  for (const auto& [key, value] : step.items()) {
    Add(samples, "tidemill_step_" + Name(key), base, value);
  }
  std::string text;
  for (const auto& [name, lines] : samples) text += "# TYPE " + name + " gauge\n" + lines;
  return text;
}

}  // namespace tidemill
