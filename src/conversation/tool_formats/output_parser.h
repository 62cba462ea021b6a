// Reads back what a model wrote: text, reasoning and tool calls, as the bytes come.
//
//   text deltas -> thinking tags, markers -> CallReader of the format -> OutputEvents
//
// Nothing is lost: what is no call of the format comes out as text, byte for byte. Only the
// format's own layout is left out: its tags, and up to two line ends between a tag and the text
// beside it. How the text is cut into deltas makes no difference to what the events add up to.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/chat_output.h"
#include "core/status.h"

namespace tidemill {

enum class ToolFormat : uint8_t {
  kNone,           // everything is text
  kHermesJson,     // <tool_call>{"name": .., "arguments": {..}}</tool_call>
  kQwenCoderXml,   // <tool_call><function=NAME><parameter=KEY>..</parameter></function></tool_call>
  kLlama3Json,     // <|python_tag|> or nothing, then {"name": .., "parameters": {..}}
  kLlamaPythonic,  // [f(a=1), g()]
};

struct OutputFormat {
  ToolFormat tools = ToolFormat::kNone;
  bool thinking = false;  // <think>..</think> before anything else is reasoning
  bool operator==(const OutputFormat&) const = default;
};

// "hermes", "qwen3_coder", "llama3_json", "pythonic", "none". kInvalid lists them.
Result<ToolFormat> ToolFormatByName(std::string_view name);
std::string_view ToolFormatName(ToolFormat format);

// The format of answers that a chat template implies.
OutputFormat DetectOutputFormat(std::string_view template_source);
// Whether a prompt ends inside of a think block that the template opened.
bool LeavesThinkingOpen(std::string_view prompt);

struct OutputParserOptions {
  OutputFormat format{};
  bool thinking_open = false;  // the prompt opened the think block
  // The tools of the request (OpenAI's form), for the types of arguments; or null.
  nlohmann::ordered_json tools = nullptr;
  size_t held_bytes_max = size_t{1} << 20;  // of what is not decided; more is text
};

class CallReader;
class OutputSink;

// One turn of one model; not thread-safe. Holds at most `held_bytes_max` and a little more.
class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) = delete;

  // Appends what is known now. A call without a kCallEnd at the end of the turn was not finished,
  // or its arguments turned out to be wrong; in the latter case the rest of it follows as text.
  void Push(std::string_view delta, std::vector<OutputEvent>& events);
  // The turn is over: what was held back comes out.
  void Finish(std::vector<OutputEvent>& events);

 private:
  enum class State : uint8_t { kStart, kThinking, kText, kCall };

  void Byte(char c);
  void TextByte(char c);
  void ThinkingByte(char c);
  void CallByte(char c);
  // Whether `held_` is, or may become, one of the markers that count here.
  bool MayBecomeMarker() const;
  bool TakeMarker();
  bool CallMayStart(std::string_view marker) const;
  void StartCall(std::string_view marker);
  void EndCall();
  void FlushLayout();
  void EmitText(char c);

  OutputParserOptions options_;
  std::unique_ptr<OutputSink> sink_;
  std::unique_ptr<CallReader> reader_;
  State state_ = State::kStart;
  std::string layout_;  // line ends that may belong to a tag; at most two
  std::string held_;    // the beginning of what may be a marker
  bool wrote_text_ = false;
  bool after_call_ = false;
  size_t skip_ = 0;       // line ends that belong to the tag just read
  int calls_before_ = 0;  // calls begun before the one that is being read
};

}  // namespace tidemill
