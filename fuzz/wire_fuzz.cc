// Bodies of requests; the first byte chooses the API. A body that is taken has canonical messages,
// and one that is not has an error that says why. Written back as a chat request, the messages are
// read as themselves.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/wire.h"
#include "gateway/wire_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  if (size == 0) return 0;
  const auto api = static_cast<Api>(data[0] % 5);
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const ParsedRequest parsed = ParseRequest(api, body, {.depth = 64});
  if (!parsed.ok()) {
    if (parsed.error.message.empty() || parsed.error.status != 400) std::abort();
    if (ErrorBody(api, parsed.error).empty()) std::abort();
    return 0;
  }
  const ChatRequest& request = *parsed.request;
  if (api == Api::kCompletions) {
    if (request.prompts.empty()) std::abort();
    return 0;
  }
  if (request.messages.empty()) return 0;  // only empty items
  WireJson again = {{"model", "m"}, {"messages", request.messages}};
  for (WireJson& message : again["messages"]) {
    if (!message["content"].is_string()) std::abort();
    if (!message.contains("tool_calls")) continue;
    for (WireJson& call : message["tool_calls"]) {
      WireJson& arguments = call["function"]["arguments"];
      if (arguments.is_object()) arguments = DumpWire(arguments);
    }
  }
  const ParsedRequest second = ParseRequest(Api::kChat, DumpWire(again), {.depth = 128});
  if (!second.ok() || second.request->messages != request.messages) std::abort();
  return 0;
}
