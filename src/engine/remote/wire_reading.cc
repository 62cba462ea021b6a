#include "engine/remote/wire_reading.h"

#include <charconv>
#include <cmath>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kEventBytesMax = size_t{16} << 20;
constexpr size_t kServerSaysMax = 300;
constexpr std::string_view kDataField = "data:";

}  // namespace

Status EventData::Add(std::string_view bytes) {
  if (read_ > 0) {
    text_.erase(0, read_);
    read_ = 0;
  }
  text_.append(bytes);
  if (text_.size() > kEventBytesMax) return Unavailable("an event of its stream has no end");
  return Ok();
}

std::optional<std::string_view> EventData::Next() {
  while (true) {
    const size_t end = text_.find('\n', read_);
    if (end == std::string::npos) return std::nullopt;
    std::string_view line(text_.data() + read_, end - read_);
    read_ = end + 1;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.starts_with(kDataField)) continue;
    line.remove_prefix(kDataField.size());
    if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    return line;
  }
}

HttpAsk JsonAsk(std::string target, const ServerJson& body) {
  HttpAsk ask;
  ask.target = std::move(target);
  ask.headers = {{"Content-Type", "application/json"}};
  ask.body = body.dump();
  return ask;
}

HttpAsk PlainAsk(std::string method, std::string target) {
  HttpAsk ask;
  ask.method = std::move(method);
  ask.target = std::move(target);
  return ask;
}

Result<ServerJson> ReadServerJson(std::string_view text) {
  ServerJson json = ServerJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return Unavailable("its answer is no JSON object: \"" + Beginning(text, 100) + "\"");
  }
  return json;
}

Result<float> ReadLogprob(const ServerJson& value) {
  if (!value.is_number()) return Unavailable("its answer has a log-probability that is no number");
  const double logprob = value.get<double>();
  if (!std::isfinite(logprob) || logprob > 1e-3) {
    return Unavailable("its answer has a log-probability of " + std::to_string(logprob));
  }
  return static_cast<float>(std::min(logprob, 0.0));
}

Result<TokenId> ReadTokenId(const ServerJson& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT32_MAX) {
    return Unavailable("its answer has a token id that is none: " + value.dump());
  }
  return value.get<TokenId>();
}

Result<std::vector<VersionSpan>> ReadSpans(const ServerJson& value) {
  std::vector<VersionSpan> spans;
  if (value.is_null()) return spans;
  const auto wrong = [] { return Unavailable("its answer's \"weight_versions\" are no spans"); };
  if (!value.is_array()) return wrong();
  for (const ServerJson& span : value) {
    if (!span.is_object() || !span.contains("version") || !span["version"].is_string()) {
      return wrong();
    }
    for (const char* field : {"start", "end"}) {
      if (!span.contains(field) || !span[field].is_number_unsigned() ||
          span[field].get<uint64_t>() > INT32_MAX) {
        return wrong();
      }
    }
    spans.push_back({.version = span["version"].get<std::string>(),
                     .start = span["start"].get<uint32_t>(),
                     .end = span["end"].get<uint32_t>()});
  }
  return spans;
}

Status ServerSays(int status, const std::string& body) {
  const std::string said =
      "it answers " + std::to_string(status) + ": " + Beginning(body, kServerSaysMax);
  return status == 400 || status == 422 ? Invalid(said) : Unavailable(said);
}

std::optional<double> ReadMetric(std::string_view metrics, std::string_view name) {
  std::optional<double> sum;
  for (size_t at = 0; at < metrics.size();) {
    const size_t end = std::min(metrics.find('\n', at), metrics.size());
    const std::string_view line = metrics.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name) || line.size() == name.size()) continue;
    const char next = line[name.size()];
    if (next != ' ' && next != '{') continue;
    const std::string_view value = line.substr(line.rfind(' ') + 1);
    double number = 0;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
    if (read.ec == std::errc()) sum = sum.value_or(0) + number;
  }
  return sum;
}

}  // namespace tidemill
