#include "live/canonical.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "core/random.h"

namespace tidemill {
namespace {

// Each begins a line; the rest of the line is what changes.
constexpr std::string_view kVolatileLines[] = {
    "x-anthropic-billing-header:", "Today's date:", "Today's date is ", "Current date:",
    "Current date and time:",      "Current time:",
};

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string WithoutVolatileLines(std::string_view text) {
  std::string kept;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (!IsVolatileLine(line)) {
      kept += line;
      kept += '\n';
    }
    at = end + 1;
  }
  return kept;
}

// Numbers as JavaScript has them: 1.0 is 1, and what is above 2^53 is rounded.
nlohmann::json Plain(const WireJson& value) {
  if (value.is_object()) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [key, item] : value.items()) object[key] = Plain(item);
    return object;
  }
  if (value.is_array()) {
    nlohmann::json list = nlohmann::json::array();
    for (const WireJson& item : value) list.push_back(Plain(item));
    return list;
  }
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_number()) return nullptr;
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::floor(number) == number && std::abs(number) <= kExact) {
    return static_cast<int64_t>(number);
  }
  return number;
}

// Parts cannot run into one another: each has its length in front.
class KeyText {
 public:
  void Add(std::string_view part) {
    text_ += std::to_string(part.size());
    text_ += ':';
    text_ += part;
  }
  uint64_t Key() const { return std::stoull(Sha256Hex(text_).substr(0, 16), nullptr, 16); }

 private:
  std::string text_;
};

std::string StringOf(const WireJson& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

void AddCalls(const WireJson& message, KeyText& key) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (const WireJson& call : *calls) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (function == call.end() || !function->is_object()) continue;
    key.Add(StringOf(*function, "name"));
    const auto arguments = function->find("arguments");
    key.Add(arguments == function->end() ? "" : CanonicalArguments(*arguments));
  }
}

}  // namespace

bool IsVolatileLine(std::string_view line) {
  for (const std::string_view begin : kVolatileLines) {
    if (Trimmed(line).starts_with(begin)) return true;
  }
  return false;
}

std::string CanonicalArguments(const WireJson& arguments) {
  if (arguments.is_string()) return arguments.get<std::string>();
  return Plain(arguments).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsSpokenAnswer(const WireJson& message) {
  if (!message.is_object() || StringOf(message, "role") != "assistant") return false;
  const auto calls = message.find("tool_calls");
  if (calls != message.end() && calls->is_array() && !calls->empty()) return true;
  return !Trimmed(StringOf(message, "content")).empty();
}

uint64_t MessageKey(const WireJson& message) {
  KeyText key;
  if (!message.is_object()) return key.Key();
  const std::string role = StringOf(message, "role");
  const std::string content = StringOf(message, "content");
  key.Add(role);
  if (role == "assistant") {
    key.Add(Trimmed(content));
    AddCalls(message, key);
    return key.Key();
  }
  key.Add(WithoutVolatileLines(content));
  // A tool's name follows from its call.
  key.Add(role == "tool" ? "" : StringOf(message, "name"));
  const auto error = message.find("is_error");
  key.Add(error != message.end() && error->is_boolean() && error->get<bool>() ? "error" : "");
  return key.Key();
}

std::vector<uint64_t> MessageKeys(const WireJson& messages) {
  std::vector<uint64_t> keys;
  keys.reserve(messages.size());
  for (const WireJson& message : messages) keys.push_back(MessageKey(message));
  return keys;
}

uint64_t ChainKey(uint64_t before, uint64_t message_key) {
  return MixHash(before, message_key);
}

}  // namespace tidemill
