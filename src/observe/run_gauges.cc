#include "observe/run_gauges.h"

#include <prometheus/text_serializer.h>

#include <cctype>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tidemill {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::string Name(const std::string& text) {
  std::string out;
  for (const char c : text) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out;
}

bool Cut(std::string& text, const std::string& prefix) {
  if (text.rfind(prefix, 0) != 0) return false;
  text.erase(0, prefix.size());
  return true;
}

// Descriptions of figures of a tick or a step that no loop declares.
std::string HelpOf(const std::string& key, const std::string& of) {
  static const std::map<std::string, std::string> known = {
      {"seconds", "Running time of the run in seconds, what was before a resume included"},
      {"tool_ms", "Mean time of a command in its box in milliseconds"},
      {"queue_ms", "Mean wait of a command for its box in milliseconds"},
      {"time_ms", "Time of the newest line in milliseconds since 1970"},
      {"workers_lost", "Processes of the fleet that stopped reporting"},
      {"reward", "Mean reward of the batch"},
      {"batch_pass_rate", "Share of the batch's episodes that solved their task"},
      {"loss", "Loss of the objective"},
      {"entropy", "Mean entropy of the policy per token in nats"},
      {"grad_norm", "Norm of the gradient before clipping"},
      {"lag_mean", "Mean age of the batch's tokens in steps"},
      {"lag_max", "Age of the batch's oldest token in steps"},
      {"step", "Number of the step"},
      {"episodes", "Episodes of the batch"},
      {"tokens", "Tokens of the batch"}};
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  std::string words = key;
  for (char& c : words) c = c == '_' ? ' ' : c;
  return words + ", of the newest " + of + " (docs/operations.md)";
}

class Families {
 public:
  explicit Families(std::string run) : run_(std::move(run)) {}

  void Add(const std::string& name, const std::string& help, MetricType type,
           const nlohmann::ordered_json& value,
           const std::vector<ClientMetric::Label>& labels = {}) {
    if (!value.is_number()) return;
    ClientMetric& metric = New(name, help, type);
    metric.label.insert(metric.label.end(), labels.begin(), labels.end());
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value.get<double>();
  }
  void AddHistogram(const std::string& name, const std::string& help,
                    const std::map<uint64_t, double>& buckets) {
    ClientMetric& metric = New(name, help, MetricType::Histogram);
    double count = 0, sum = 0;
    for (const auto& [value, times] : buckets) {
      count += times, sum += static_cast<double>(value) * times;
      metric.histogram.bucket.push_back({static_cast<uint64_t>(count), static_cast<double>(value)});
    }
    metric.histogram.bucket.push_back(
        {static_cast<uint64_t>(count), std::numeric_limits<double>::infinity()});
    metric.histogram.sample_count = static_cast<uint64_t>(count);
    metric.histogram.sample_sum = sum;
  }

  std::vector<MetricFamily> Take() {
    std::vector<MetricFamily> all;
    for (auto& [name, family] : families_) all.push_back(std::move(family));
    return all;
  }

 private:
  ClientMetric& New(const std::string& name, const std::string& help, MetricType type) {
    MetricFamily& family = families_[name];
    family.name = name, family.help = help, family.type = type;
    family.metric.emplace_back();
    family.metric.back().label.push_back({"run", run_});
    return family.metric.back();
  }

  const std::string run_;
  std::map<std::string, MetricFamily> families_;
};

}  // namespace

std::vector<MetricFamily> RunFamilies(const std::string& run, const MetricsFile& metrics,
                                      const CounterTable& about) {
  Families families(run);
  const auto tick = metrics.Series("tick").Newest();
  for (const auto& [key, value] : tick.items()) {
    std::string rest = key;
    const bool port = Cut(rest, "busy_port_");
    if (port || Cut(rest, "busy_loop_")) {
      families.Add("tidemill_busy_share", "Share of the run's time in which a loop or port worked",
                   MetricType::Gauge, value, {{"kind", port ? "port" : "loop"}, {"name", rest}});
    } else if (Cut(rest, "depth_")) {
      families.Add("tidemill_queue_depth", "Messages ready in a topic", MetricType::Gauge, value,
                   {{"topic", rest}});
    } else {
      const auto known = about.find(key);
      const bool grows = known != about.end() && known->second.kind != Counter::Kind::kLevel;
      families.Add("tidemill_run_" + Name(key),
                   known == about.end() ? HelpOf(key, "second") : known->second.help,
                   grows ? MetricType::Counter : MetricType::Gauge, value);
    }
  }
  const auto step = metrics.Series("step").Newest();
  for (const auto& [key, value] : step.items()) {
    if (key.find("_hist_") != std::string::npos) continue;
    families.Add("tidemill_step_" + Name(key), HelpOf(key, "step"), MetricType::Gauge, value);
  }
  for (const auto& [name, buckets] : metrics.histograms()) {
    const bool lag = name == "lag";
    families.AddHistogram(
        "tidemill_run_" + Name(name) + (lag ? "_steps" : "_versions"),
        lag ? "Age in steps of the tokens trained on"
            : "Versions between the oldest and the newest token of the sequences trained on",
        buckets);
  }
  return families.Take();
}

std::string RunGauges(const std::string& run, const MetricsFile& metrics,
                      const CounterTable& about) {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, RunFamilies(run, metrics, about));
  return out.str();
}

}  // namespace tidemill
