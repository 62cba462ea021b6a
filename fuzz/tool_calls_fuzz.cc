// What a model wrote, read back. The first byte chooses format and options; the rest is the text,
// given at once and byte by byte.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "conversation/tool_formats/output_parser.h"

namespace {

using tidemill::OutputEvent;

struct Total {
  std::string text;       // all of it, with marks between the kinds
  std::string arguments;  // of the call that is open
  bool only_text = true;
};

void Add(const std::vector<OutputEvent>& events, Total& total, OutputEvent::Kind& last) {
  for (const OutputEvent& event : events) {
    if (event.kind != last || event.kind == OutputEvent::Kind::kCallBegin) {
      if (event.kind != OutputEvent::Kind::kText || !total.text.empty()) {
        total.text += "\x01" + std::to_string(static_cast<int>(event.kind)) + "\x01";
      }
    }
    last = event.kind;
    total.text += event.text;
    if (event.kind != OutputEvent::Kind::kText) total.only_text = false;
    if (event.kind == OutputEvent::Kind::kCallBegin) total.arguments.clear();
    if (event.kind == OutputEvent::Kind::kCallArguments) total.arguments += event.text;
    // Bytes that are no UTF-8 make no JSON; the text of a model is UTF-8.
    if (event.kind == OutputEvent::Kind::kCallEnd &&
        (total.arguments.front() != '{' || total.arguments.back() != '}')) {
      std::abort();
    }
  }
}

Total Read(const tidemill::OutputParserOptions& options, std::string_view text, size_t step) {
  tidemill::OutputParser parser(options);
  Total total;
  OutputEvent::Kind last = OutputEvent::Kind::kText;
  for (size_t at = 0; at < text.size(); at += step) {
    std::vector<OutputEvent> events;
    parser.Push(text.substr(at, step), events);
    Add(events, total, last);
  }
  std::vector<OutputEvent> events;
  parser.Finish(events);
  Add(events, total, last);
  return total;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  tidemill::OutputParserOptions options;
  options.format.tools = static_cast<tidemill::ToolFormat>(data[0] % 5);
  options.format.thinking = (data[0] & 8) != 0;
  options.thinking_open = (data[0] & 16) != 0;
  if ((data[0] & 32) != 0) options.held_bytes_max = 16;
  options.tools = {
      {{"name", "f"},
       {"parameters",
        {{"properties", {{"n", {{"type", "integer"}}}, {"o", {{"type", "object"}}}}}}}}};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Total whole = Read(options, text, text.size() + 1);
  if (Read(options, text, 1).text != whole.text) std::abort();
  const bool thinks = options.format.thinking || options.thinking_open;
  if (whole.only_text && !thinks && whole.text != text) std::abort();
  return 0;
}
