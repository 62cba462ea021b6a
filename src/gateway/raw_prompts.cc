#include "gateway/raw_prompts.h"

#include <fmt/format.h>

#include <limits>

#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr int64_t kPromptIdMax = std::numeric_limits<int32_t>::max();

bool IsTokenList(const WireJson& value) {
  return value.is_array() && !value.empty() && value[0].is_number();
}

RawPrompt ReadTokenPrompt(WireParse& parse, const WireJson& value, const WirePlace& at) {
  RawPrompt prompt;
  prompt.ids.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const bool is_id =
        value[i].is_number_unsigned() && value[i].get<uint64_t>() <= uint64_t{kPromptIdMax};
    if (!is_id) {
      parse.Fail({&at, {}, i}, fmt::format("must be a token id, got {}", ShownWire(value[i])),
                 "invalid_type");
      return prompt;
    }
    prompt.ids.push_back(value[i].get<int32_t>());
  }
  return prompt;
}

}  // namespace

void ReadPrompts(const WireObject& body, std::string_view key, ChatRequest& request) {
  body.Require(key);
  const WireJson* value = body.Find(key);
  if (value == nullptr) return;
  WireParse& parse = body.parse();
  const WirePlace at = body.PlaceOf(key);
  if (value->is_string()) {
    request.prompts.push_back({value->get<std::string>(), {}});
    return;
  }
  if (IsTokenList(*value)) {
    request.prompts.push_back(ReadTokenPrompt(parse, *value, at));
    return;
  }
  body.List(key, parse.limits().prompts, [&](const WireJson& prompt, const WirePlace& place) {
    if (prompt.is_string()) {
      request.prompts.push_back({prompt.get<std::string>(), {}});
    } else if (IsTokenList(prompt)) {
      request.prompts.push_back(ReadTokenPrompt(parse, prompt, place));
    } else {
      parse.Fail(place,
                 fmt::format("must be a text or a list of token ids, got {}", ShownWire(prompt)),
                 "invalid_type");
    }
  });
  if (request.prompts.empty()) body.Fail(key, "must not be empty");
}

}  // namespace tidemill
