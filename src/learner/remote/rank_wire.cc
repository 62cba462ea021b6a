#include <cmath>
#include <cstring>

#include "learner/remote/rank_link.h"

namespace tidemill {
namespace {

using RankJson = nlohmann::json;

constexpr uint32_t kWordsMax = 1u << 28;
constexpr uint64_t kArraysMax = uint64_t{1} << 36;

template <typename T>
void AddArray(const std::string& name, const char* type, const std::vector<T>& values,
              RankJson& named, std::string& bytes) {
  named.push_back({name, {{"type", type}, {"count", values.size()}}});
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
Status TakeArray(const std::string& name, uint64_t count, std::string_view& bytes,
                 std::map<std::string, std::vector<T>>& to) {
  if (count > bytes.size() / sizeof(T)) {
    return Invalid("its array \"" + name + "\" is longer than the message");
  }
  std::vector<T>& values = to[name];
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return Ok();
}

}  // namespace

std::string EncodeRankMessage(const RankMessage& message) {
  // The other end reads the arrays in the order in which they are named.
  std::string arrays, text = message.words.dump();
  RankJson named = RankJson::array();
  for (const auto& [name, values] : message.ints) AddArray(name, "i32", values, named, arrays);
  for (const auto& [name, values] : message.floats) AddArray(name, "f32", values, named, arrays);
  std::string list;
  for (const RankJson& one : named) {
    list += (list.empty() ? "" : ",") + one[0].dump() + ":" + one[1].dump();
  }
  text.pop_back();
  text += std::string(text.size() > 1 ? "," : "") + "\"arrays\":{" + list + "}}";
  std::string bytes(RankFrame::kBytes, '\0');
  const auto words = static_cast<uint32_t>(text.size());
  const uint64_t size = arrays.size();
  std::memcpy(bytes.data(), &words, sizeof words);
  std::memcpy(bytes.data() + sizeof words, &size, sizeof size);
  return bytes + text + arrays;
}

Result<RankFrame> DecodeRankFrame(std::string_view bytes) {
  RankFrame frame;
  TM_CHECK(bytes.size() == RankFrame::kBytes, "a whole frame");
  std::memcpy(&frame.words, bytes.data(), sizeof frame.words);
  std::memcpy(&frame.arrays, bytes.data() + sizeof frame.words, sizeof frame.arrays);
  if (frame.words > kWordsMax || frame.arrays > kArraysMax) {
    return Invalid("a message of " + std::to_string(frame.words) + " and " +
                   std::to_string(frame.arrays) + " bytes");
  }
  return frame;
}

Result<RankMessage> DecodeRankMessage(std::string_view words, std::string_view arrays) {
  // Ordered: the arrays' bytes come as they are named.
  const auto json = nlohmann::ordered_json::parse(words, nullptr, false);
  if (!json.is_object()) return Invalid("it is no JSON object");
  RankMessage message;
  const auto named = json.find("arrays");
  if (named != json.end() && !named->is_object()) return Invalid("its \"arrays\" is no object");
  if (named != json.end()) {
    for (const auto& [name, shape] : named->items()) {
      const bool right = shape.is_object() && shape.contains("type") && shape.contains("count") &&
                         shape["type"].is_string() && shape["count"].is_number_unsigned();
      const std::string type = right ? shape["type"].get<std::string>() : "";
      if (type != "i32" && type != "f32") {
        return Invalid("its array \"" + name + "\" has no type and count");
      }
      const auto count = shape["count"].get<uint64_t>();
      TM_RETURN_IF_ERROR(type == "i32" ? TakeArray(name, count, arrays, message.ints)
                                       : TakeArray(name, count, arrays, message.floats));
    }
  }
  if (!arrays.empty()) return Invalid("it is longer than its arrays");
  for (const auto& [name, value] : json.items()) {
    if (name != "arrays") message.words[name] = RankJson::parse(value.dump());
  }
  return message;
}

Result<double> NumberIn(const RankMessage& answer, const char* name) {
  const auto found = answer.words.find(name);
  if (found == answer.words.end() || !found->is_number() || !std::isfinite(found->get<double>())) {
    return Invalid("the ranks' answer has no number \"" + std::string(name) + "\"");
  }
  return found->get<double>();
}

}  // namespace tidemill
