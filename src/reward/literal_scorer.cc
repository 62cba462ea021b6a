#include "reward/literal_scorer.h"

#include "tasks/import/python_literal.h"

namespace tidemill {
namespace {

constexpr size_t kLiteralBytesMin = 3;

bool WordCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '.';
}

// As a whole: 383 does not stand in 13830.
bool StandsIn(std::string_view text, std::string_view literal) {
  for (size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + 1)) {
    const size_t end = at + literal.size();
    const bool before = at > 0 && WordCharacter(text[at - 1]) && WordCharacter(literal.front());
    const bool after =
        end < text.size() && WordCharacter(text[end]) && WordCharacter(literal.back());
    if (!before && !after) return true;
  }
  return false;
}

}  // namespace

bool RepeatsShownLiteral(std::string_view prompt, std::string_view answer) {
  while (!prompt.empty()) {
    const size_t end = prompt.find('\n');
    const std::string_view line = prompt.substr(0, end);
    prompt.remove_prefix(end == std::string_view::npos ? prompt.size() : end + 1);
    const auto assertion = ParseAssertion(line);
    if (!assertion.ok()) continue;
    const std::string& literal = assertion->literal;
    if (literal.size() < kLiteralBytesMin || literal == "True" || literal == "False" ||
        literal == "None") {
      continue;
    }
    if (StandsIn(answer, literal)) return true;
  }
  return false;
}

}  // namespace tidemill
