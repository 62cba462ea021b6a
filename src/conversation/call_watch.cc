#include "conversation/call_watch.h"

#include <algorithm>
#include <utility>

namespace tidemill {

CallWatch::CallWatch(const ModelChat& chat, bool thinking_open, const nlohmann::ordered_json& tools)
    : chat_(chat),
      format_(TurnParserOptions(chat, thinking_open, tools).format),
      parser_(TurnParserOptions(chat, thinking_open, tools)) {}

std::vector<WrittenCall> CallWatch::Push(std::span<const TokenId> ids) {
  std::vector<OutputEvent> events;
  for (const TokenId id : ids) {
    const bool ends =
        std::find(chat_.end_ids.begin(), chat_.end_ids.end(), id) != chat_.end_ids.end();
    if (ends || !IsAnswerText(chat_.tokenizer, format_, id)) continue;
    parser_.Push(chat_.tokenizer.TokenBytes(id), events);
  }
  std::vector<WrittenCall> complete;
  for (OutputEvent& event : events) {
    switch (event.kind) {
      case OutputEvent::Kind::kText:
      case OutputEvent::Kind::kReasoning:
        break;
      case OutputEvent::Kind::kCallBegin:
        called_ = true;
        call_ = {std::move(event.text), ""};
        break;
      case OutputEvent::Kind::kCallArguments:
        call_.arguments += event.text;
        break;
      case OutputEvent::Kind::kCallEnd:
        complete.push_back(std::exchange(call_, {}));
        break;
    }
  }
  return complete;
}

}  // namespace tidemill
