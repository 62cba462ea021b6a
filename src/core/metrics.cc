#include "core/metrics.h"

namespace tidemill {

Metrics::Metrics() : registry_(std::make_shared<prometheus::Registry>()) {}

prometheus::Counter& Metrics::Counter(const std::string& name, const std::string& help,
                                      const Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_).Add(labels);
}

prometheus::Gauge& Metrics::Gauge(const std::string& name, const std::string& help,
                                  const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_).Add(labels);
}

prometheus::Histogram& Metrics::Histogram(const std::string& name, const std::string& help,
                                          const Labels& labels, const std::vector<double>& bounds) {
  static const std::vector<double> kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                               0.5,   1,      2.5,   5,    10,    30,   60,  300};
  return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_).Add(
      labels, bounds.empty() ? kSeconds : bounds);
}

}  // namespace tidemill
