// Template source to tokens, with the white space handling of trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

struct JinjaToken {
  enum class Kind : uint8_t {
    kText,        // template data, already trimmed
    kPrintBegin,  // {{
    kPrintEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,  // `text` is the value, escapes resolved
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  size_t begin = 0;  // in the source
  size_t end = 0;
};

// With "\n" for every line end and without one at the end, as jinja2 reads it.
std::string NormalizedSource(std::string_view source);
// `source` is normalized. Throws JinjaSyntaxError.
std::vector<JinjaToken> LexTemplate(std::string_view source);

// Thrown by lexer and parser, caught where a template is parsed.
struct JinjaSyntaxError {
  std::string message;
  size_t at = 0;  // byte of the source
};

}  // namespace tidemill
