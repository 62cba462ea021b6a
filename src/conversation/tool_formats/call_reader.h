// Reads one call (of some formats a list of calls) behind its marker, byte by byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/tool_formats/output_parser.h"

namespace tidemill {

// Collects events; what follows on the same kind is joined.
class OutputSink {
 public:
  void Text(std::string_view text) { Add(OutputEvent::Kind::kText, text, -1); }
  void Reasoning(std::string_view text) { Add(OutputEvent::Kind::kReasoning, text, -1); }
  void BeginCall(std::string_view name) {
    events_.push_back({OutputEvent::Kind::kCallBegin, std::string(name), ++call_});
  }
  void Arguments(std::string_view text) { Add(OutputEvent::Kind::kCallArguments, text, call_); }
  void EndCall() { events_.push_back({OutputEvent::Kind::kCallEnd, {}, call_}); }
  int calls() const { return call_ + 1; }
  // Moves the events so far to `out`.
  void Drain(std::vector<OutputEvent>& out);

 private:
  void Add(OutputEvent::Kind kind, std::string_view text, int call);
  std::vector<OutputEvent> events_;
  int call_ = -1;
};

class CallReader {
 public:
  enum class Outcome : uint8_t {
    kMore,  // goes on
    kDone,  // complete with this byte
    kStop,  // this byte does not belong to it; Held() is text, and so is the byte
  };
  virtual ~CallReader() = default;
  virtual Outcome Push(char c, OutputSink& sink) = 0;
  // Text that was read and not given out, should the call not come to be.
  virtual const std::string& Held() const = 0;
  // The turn ends here; whether what is held is layout behind a complete call.
  virtual bool EndsWell() const = 0;
};

// `opened` is the marker that was read: part of what is held.
std::unique_ptr<CallReader> NewJsonCallReader(std::string opened, std::string close,
                                              size_t held_max);
std::unique_ptr<CallReader> NewXmlCallReader(std::string opened,
                                             const nlohmann::ordered_json& tools, size_t held_max);
std::unique_ptr<CallReader> NewPythonicCallReader(std::string opened);

inline bool IsJsonSpace(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
// A piece of text inside of a JSON string.
void AppendJsonEscaped(std::string_view text, std::string& out);

}  // namespace tidemill
