// A model's output after parsing: text, reasoning and tool calls in the order they
// came.
#pragma once

#include <cstdint>
#include <string>

namespace tidemill {

struct OutputEvent {
  enum class Kind : uint8_t {
    kText,           // `text`: more of the answer
    kReasoning,      // `text`: more of the reasoning
    kCallBegin,      // `text`: the tool's name; `call` is new
    kCallArguments,  // `text`: more of the arguments, a JSON object as it is written
    kCallEnd,        // the arguments are complete
  };
  Kind kind = Kind::kText;
  std::string text{};
  int call = -1;  // which call of this turn, from 0; -1 for text and reasoning
  bool operator==(const OutputEvent&) const = default;
};

}  // namespace tidemill
