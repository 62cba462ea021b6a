#include "core/metrics.h"

#include <prometheus/text_serializer.h>

#include <sstream>
#include <utility>

namespace tidemill {

void MetricSink::Add(prometheus::MetricType type, const std::string& name, const std::string& help,
                     double value, const Labels& labels) {
  prometheus::MetricFamily& family = families_[name];
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric metric;
  for (const auto& [key, text] : labels) metric.label.push_back({key, text});
  (type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

Metrics::Metrics() = default;

prometheus::Counter& Metrics::Counter(const std::string& name, const std::string& help,
                                      const Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Gauge& Metrics::Gauge(const std::string& name, const std::string& help,
                                  const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Histogram& Metrics::Histogram(const std::string& name, const std::string& help,
                                          const Labels& labels, const std::vector<double>& bounds) {
  static const std::vector<double> kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                               0.5,   1,      2.5,   5,    10,    30,   60,  300};
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(
      labels, bounds.empty() ? kSeconds : bounds);
}

void Metrics::AddSource(std::function<void(MetricSink&)> source) {
  MutexLock lock(sources_mutex_);
  sources_.push_back(std::move(source));
}

std::vector<prometheus::MetricFamily> Metrics::Collect(const Labels& common) {
  MetricSink sink;
  {
    MutexLock lock(sources_mutex_);
    for (const auto& source : sources_) source(sink);
  }
  for (prometheus::MetricFamily& own : registry_.Collect()) {
    prometheus::MetricFamily& family = sink.families_[own.name];
    std::swap(family.metric, own.metric);
    family.name = own.name, family.help = own.help, family.type = own.type;
    family.metric.insert(family.metric.end(), own.metric.begin(), own.metric.end());
  }
  std::vector<prometheus::MetricFamily> families;
  for (auto& [name, family] : sink.families_) {
    for (prometheus::ClientMetric& metric : family.metric) {
      for (const auto& [key, text] : common) metric.label.push_back({key, text});
    }
    families.push_back(std::move(family));
  }
  return families;
}

std::string Metrics::Text(const Labels& common) {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, Collect(common));
  return out.str();
}

}  // namespace tidemill
