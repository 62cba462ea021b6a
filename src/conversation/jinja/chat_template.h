// Chat templates as models ship them: a Jinja interpreter that agrees with Python's jinja2 as
// transformers sets it up (trim_blocks, lstrip_blocks, loop controls, an immutable sandbox).
//
//   source -> lexer -> parser -> statements -> Render(conversation) -> text + what came from
//   outside
//
// The interpreter marks every character that came from the conversation, through filters,
// concatenation and macros, so that the caller can encode those with special tokens off.
// Templates are not trusted: steps, memory, depth and output are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/text_span.h"

namespace tidemill {

// A date and time of day as a calendar shows it; what strftime_now prints.
struct CivilTime {
  int year = 1970;
  int month = 1;  // 1 to 12
  int day = 1;    // 1 to 31
  int hour = 0;
  int minute = 0;
  int second = 0;
};
// "2025-03-14T09:26:53". kInvalid: it is not a date and time in this form.
Result<CivilTime> ParseCivilTime(std::string_view text);
// That second on the clock of this machine's time zone.
CivilTime LocalTime(int64_t unix_seconds);

struct RenderLimits {
  uint64_t steps_max = 20'000'000;              // expressions, statements, and bytes moved / 128
  size_t memory_bytes_max = size_t{256} << 20;  // held by values at one time
  size_t output_bytes_max = size_t{64} << 20;
  int depth_max = 1000;  // nested expressions, statements and calls together
};

struct RenderInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;                            // a list or null
  nlohmann::ordered_json kwargs = nlohmann::ordered_json::object();  // further variables
  bool add_generation_prompt = false;
  std::optional<std::string> bos_token = std::nullopt;  // none: undefined in the template
  std::optional<std::string> eos_token = std::nullopt;
  CivilTime now{};
  RenderLimits limits{};
};

struct Rendered {
  std::string text;  // valid UTF-8
  // Came from messages, tools or kwargs; sorted, disjoint. The role of a message does not count
  // where it is one of the usual names: templates build special tokens with it.
  std::vector<TextSpan> outside;
};

// Immutable and thread-safe; copies share one instance.
class ChatTemplate {
 public:
  // `name` is what errors call the template. kInvalid names the line and what is wrong there.
  static Result<ChatTemplate> Parse(std::string_view source, std::string_view name);

  // kInvalid: the template refused the conversation (raise_exception), an expression failed or a
  // limit was reached; the message names template, line and expression.
  Result<Rendered> Render(const RenderInput& input) const;

  std::string_view source() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;  // shared: copies of this object use it from any thread
};

}  // namespace tidemill
