// The gateway's figures for Prometheus, with vLLM's names where they mean the same.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "core/metrics.h"
#include "engine/engine_port.h"
#include "gateway/gateway_loop.h"
#include "gateway/request_report.h"

namespace tidemill {

// Thread-safe.
class GatewayMetrics final : public RequestObserver {
 public:
  // `metrics` must outlive it.
  GatewayMetrics(Metrics& metrics, const std::string& model);

  void Over(const RequestReport& report) override;
  // Levels, asked for when metrics are collected.
  static void Sink(const GatewayLoop::Counts& counts, const EngineStats& engine,
                   const std::string& model, MetricSink& sink);

 private:
  Metrics& metrics_;
  const Labels labels_;
  prometheus::Histogram& first_token_;
  prometheus::Histogram& per_token_;
  prometheus::Histogram& total_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& prompt_size_;
  prometheus::Histogram& answer_size_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& answer_tokens_;
};

}  // namespace tidemill
