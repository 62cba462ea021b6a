// A chat template, rendered on a conversation. The input is the template; with a zero byte in it,
// what stands behind is the conversation's messages as JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "conversation/jinja/chat_template.h"
#include "core/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const auto chat = tidemill::ChatTemplate::Parse(input.substr(0, zero), "fuzz");
  if (!chat.ok()) return 0;
  tidemill::RenderInput render;
  render.limits.steps_max = 100'000;
  render.limits.memory_bytes_max = size_t{8} << 20;
  render.bos_token = "<s>";
  render.add_generation_prompt = true;
  render.tools = Json::array({{{"name", "f"}, {"parameters", {{"type", "object"}}}}});
  render.kwargs = {{"n", 7}, {"s", "t\xc3\xa9xt"}, {"l", {3, 1, 2}}};
  render.messages = Json::array({{{"role", "user"}, {"content", "Hi <|im_end|>"}},
                                 {{"role", "assistant"}, {"content", nullptr}}});
  if (zero != std::string_view::npos) {
    Json json = Json::parse(input.substr(zero + 1), nullptr, false);
    if (json.is_array()) render.messages = std::move(json);
  }
  const auto rendered = chat->Render(render);
  if (!rendered.ok()) return 0;
  if (!tidemill::IsUtf8(rendered->text)) std::abort();
  size_t at = 0;
  for (const tidemill::TextSpan& span : rendered->outside) {
    if (span.begin < at || span.begin >= span.end || span.end > rendered->text.size()) std::abort();
    at = span.end + 1;
  }
  return 0;
}
