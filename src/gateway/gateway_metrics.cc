#include "gateway/gateway_metrics.h"

#include <algorithm>
#include <vector>

namespace tidemill {
namespace {

const std::vector<double>& TokenBounds() {
  static const std::vector<double> bounds = {1,   2,    5,    10,   20,    50,    100,   200,
                                             500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
  return bounds;
}

const std::vector<double>& PerTokenBounds() {
  static const std::vector<double> bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                             0.075, 0.1,    0.15,  0.2,  0.3,   0.4,
                                             0.5,   0.75,   1,     2.5,  5,     10};
  return bounds;
}

// Paths that exist; whatever else a client asked for is one.
std::string KnownPath(const std::string& path) {
  for (const char* known : {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                            "/v1/messages", "/v1/messages/count_tokens", "/v1/models"}) {
    if (path == known) return path;
  }
  return "other";
}

std::string FinishedReason(const RequestReport& report) {
  if (report.status == 499) return "abort";
  if (report.status != 200) return "error";
  return report.finish == "length" ? "length" : "stop";
}

}  // namespace

GatewayMetrics::GatewayMetrics(Metrics& metrics, const std::string& model)
    : metrics_(metrics),
      labels_{{"model_name", model}},
      first_token_(metrics.Histogram("vllm:time_to_first_token_seconds",
                                     "From the arrival of a request to its first token", labels_)),
      per_token_(metrics.Histogram("vllm:request_time_per_output_token_seconds",
                                   "Time between the tokens of a request, its mean", labels_,
                                   PerTokenBounds())),
      total_(metrics.Histogram("vllm:e2e_request_latency_seconds",
                               "From the arrival of a request to its end", labels_)),
      queue_(metrics.Histogram("vllm:request_queue_time_seconds",
                               "From the arrival of a request to the engine", labels_)),
      prompt_size_(metrics.Histogram("vllm:request_prompt_tokens", "Tokens of a prompt", labels_,
                                     TokenBounds())),
      answer_size_(metrics.Histogram("vllm:request_generation_tokens", "Tokens of an answer",
                                     labels_, TokenBounds())),
      prompt_tokens_(metrics.Counter("vllm:prompt_tokens_total", "Tokens of prompts", labels_)),
      answer_tokens_(
          metrics.Counter("vllm:generation_tokens_total", "Tokens of answers", labels_)) {}

void GatewayMetrics::Over(const RequestReport& report) {
  metrics_
      .Counter("tidemill_gateway_requests_total", "Requests by path and HTTP status",
               {{"path", KnownPath(report.path)}, {"status", std::to_string(report.status)}})
      .Increment();
  if (!report.tenant.empty()) {
    metrics_
        .Counter("tidemill_gateway_tenant_requests_total", "Requests by tenant",
                 {{"tenant", report.tenant}})
        .Increment();
    metrics_
        .Counter("tidemill_gateway_tenant_tokens_total", "Tokens of answers by tenant",
                 {{"tenant", report.tenant}})
        .Increment(static_cast<double>(report.completion_tokens));
  }
  if (!report.error.empty()) {
    metrics_
        .Counter("tidemill_gateway_errors_total", "Requests refused or failed, by kind",
                 {{"kind", report.error}})
        .Increment();
  }
  if (report.choices == 0) return;  // it never got to the engine
  Labels finished = labels_;
  finished["finished_reason"] = FinishedReason(report);
  metrics_.Counter("vllm:request_success_total", "Requests over, by how they ended", finished)
      .Increment();
  queue_.Observe(report.queue_s);
  total_.Observe(report.total_s);
  prompt_size_.Observe(static_cast<double>(report.prompt_tokens));
  answer_size_.Observe(static_cast<double>(report.completion_tokens));
  prompt_tokens_.Increment(static_cast<double>(report.prompt_tokens));
  answer_tokens_.Increment(static_cast<double>(report.completion_tokens));
  if (report.first_token_s <= 0) return;
  first_token_.Observe(report.first_token_s);
  const double tokens = static_cast<double>(report.completion_tokens) / report.choices;
  if (tokens >= 2) per_token_.Observe((report.total_s - report.first_token_s) / (tokens - 1));
}

void GatewayMetrics::Sink(const GatewayLoop::Counts& counts, const EngineStats& engine,
                          const std::string& model, MetricSink& sink) {
  const Labels labels = {{"model_name", model}};
  const auto share = [](size_t part, size_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  const size_t queued = std::min(engine.waiting_live, counts.sequences);
  sink.Gauge("vllm:num_requests_running", "Sequences the engine draws for",
             static_cast<double>(counts.sequences - queued), labels);
  sink.Gauge("vllm:num_requests_waiting", "Requests that wait for the engine",
             static_cast<double>(counts.waiting + queued), labels);
  sink.Gauge("vllm:kv_cache_usage_perc", "Share of the cache's pages in use, from 0 to 1",
             share(engine.pages_used, engine.pages_total), labels);
  sink.Counter("vllm:prefix_cache_queries_total", "Tokens of prompts looked up in the cache",
               static_cast<double>(engine.lookup_tokens), labels);
  sink.Counter("vllm:prefix_cache_hits_total", "Tokens of prompts found in the cache",
               static_cast<double>(engine.reused_tokens), labels);
  sink.Gauge("tidemill_gateway_policy_version", "Policy version that answers",
             static_cast<double>(engine.version), labels);
}

}  // namespace tidemill
