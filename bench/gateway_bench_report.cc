#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/gateway_bench.h"

namespace tidemill {
namespace {

using ReportJson = nlohmann::ordered_json;

// On a GPU.
constexpr double kHttpToBareLeast = 0.9;
constexpr double kAddedMostMs = 5;
constexpr double kAddedLongMostMs = 20;

std::string FirstTokenText(const char* what, const FirstToken& f) {
  return fmt::format("  {:<26} {:8.2f} {:8.2f} {:8.2f} {:8.2f} {:8.2f}\n", what, f.bare_p50_ms,
                     f.http_p50_ms, f.bare_p99_ms, f.http_p99_ms, f.AddedMs());
}

ReportJson FirstTokenJson(const FirstToken& f) {
  return {{"bare_p50_ms", f.bare_p50_ms},
          {"http_p50_ms", f.http_p50_ms},
          {"bare_p99_ms", f.bare_p99_ms},
          {"http_p99_ms", f.http_p99_ms},
          {"added_p99_ms", f.AddedMs()}};
}

std::string GapsText(const StreamGaps& gaps, uint64_t swaps) {
  return fmt::format(
      "gap between events, ms: p99 {:.2f} without a swap; {} swaps, {} gaps with one in it: p50 "
      "{:.2f}, p99 {:.2f}, most {:.2f}; added at p99 {:.2f}\n",
      gaps.p99_ms, swaps, gaps.at_swaps, gaps.swap_p50_ms, gaps.swap_p99_ms, gaps.swap_max_ms,
      gaps.AddedMs());
}

ReportJson GapsJson(const StreamGaps& gaps) {
  return {{"p99_ms", gaps.p99_ms},           {"at_swaps", gaps.at_swaps},
          {"swap_p50_ms", gaps.swap_p50_ms}, {"swap_p99_ms", gaps.swap_p99_ms},
          {"swap_max_ms", gaps.swap_max_ms}, {"added_p99_ms", gaps.AddedMs()}};
}

void Bound(const char* what, double value, double most, std::vector<std::string>& misses) {
  if (value <= most) return;
  misses.push_back(fmt::format("{}: {:.2f} ms, at most {:.0f} ms", what, value, most));
}

std::string Lines(const std::vector<std::string>& misses) {
  std::string text;
  for (const std::string& miss : misses) text += "\nmissed: " + miss;
  return text;
}

}  // namespace

std::vector<std::string> GatewayBenchReport::Misses() const {
  std::vector<std::string> misses;
  if (broken > 0) misses.push_back(fmt::format("{} broken streams, must be 0", broken));
  if (gaps.at_swaps == 0) misses.push_back("no stream saw a swap");
  if (!on_gpu) return misses;
  if (HttpToBare() < kHttpToBareLeast) {
    misses.push_back(
        fmt::format("tokens a second through HTTP: {:.3f} of the bare engine's, must "
                    "be at least {}",
                    HttpToBare(), kHttpToBareLeast));
  }
  Bound("first token, prompt", cold.AddedMs(), kAddedMostMs, misses);
  Bound("first token, later turn", later.AddedMs(), kAddedMostMs, misses);
  Bound("first token, long prompt", long_cold.AddedMs(), kAddedLongMostMs, misses);
  Bound("gap at a swap", gaps.AddedMs(), kAddedMostMs, misses);
  return misses;
}

std::string GatewayBenchReport::ToText() const {
  std::string text = "first token, ms              bare p50 http p50 bare p99 http p99    added\n";
  text += FirstTokenText(fmt::format("prompt of {}", options.prompt).c_str(), cold);
  text += FirstTokenText(fmt::format("prompt of {}", options.long_prompt).c_str(), long_cold);
  text += FirstTokenText("later turn of a session", later);
  text +=
      fmt::format("tokens a second, {} streams: bare {:.0f}, through HTTP {:.0f}, ratio {:.3f}\n",
                  options.streams, bare_tokens_per_s, http_tokens_per_s, HttpToBare());
  text += GapsText(gaps, swaps);
  return text + fmt::format("broken streams: {}", broken) + Lines(Misses());
}

std::string GatewayBenchReport::ToJson() const {
  return ReportJson{{"streams", options.streams},
                    {"prompt", options.prompt},
                    {"long_prompt", options.long_prompt},
                    {"requests", options.requests},
                    {"first_token", FirstTokenJson(cold)},
                    {"first_token_long", FirstTokenJson(long_cold)},
                    {"first_token_later_turn", FirstTokenJson(later)},
                    {"bare_tokens_per_s", bare_tokens_per_s},
                    {"http_tokens_per_s", http_tokens_per_s},
                    {"http_to_bare", HttpToBare()},
                    {"gaps", GapsJson(gaps)},
                    {"swaps", swaps},
                    {"broken_streams", broken},
                    {"missed", Misses()}}
      .dump();
}

std::vector<std::string> GatewayLoadReport::Misses() const {
  std::vector<std::string> misses;
  if (broken > 0) {
    misses.push_back(
        fmt::format("{} broken streams, must be 0; the last: {}", broken, broken_example));
  }
  if (swaps < static_cast<uint64_t>(options.swaps)) {
    misses.push_back(fmt::format("{} swaps, must be {}", swaps, options.swaps));
  }
  if (open_most < static_cast<uint64_t>(options.streams)) {
    misses.push_back(fmt::format("{} streams at once, must be {}", open_most, options.streams));
  }
  return misses;
}

std::string GatewayLoadReport::ToText() const {
  return fmt::format(
             "{} requests in {:.1f} s, {} streams at once; complete {}, broken {}\n"
             "first token, p99: {:.1f} ms\n",
             options.requests, seconds, open_most, complete, broken, first_token_p99_ms) +
         GapsText(gaps, swaps) + fmt::format("tokens of an answer: {}", options.tokens) +
         Lines(Misses());
}

std::string GatewayLoadReport::ToJson() const {
  return ReportJson{{"requests", options.requests},
                    {"streams_at_once", open_most},
                    {"complete", complete},
                    {"broken_streams", broken},
                    {"swaps", swaps},
                    {"seconds", seconds},
                    {"first_token_p99_ms", first_token_p99_ms},
                    {"gaps", GapsJson(gaps)},
                    {"missed", Misses()}}
      .dump();
}

}  // namespace tidemill
