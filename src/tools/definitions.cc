#include "tools/definitions.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace tidemill {
namespace {

template <size_t kCount>
bool IsAmong(const std::array<std::string_view, kCount>& words, std::string_view word) {
  for (const std::string_view one : words) {
    if (one == word) return true;
  }
  return false;
}

// Words whose parentheses are not those of a function's parameters.
constexpr std::array<std::string_view, 9> kNoParameters = {
    "__attribute__", "__declspec", "alignas", "_Alignas",      "noexcept",
    "decltype",      "throw",      "asm",     "_Static_assert"};
// Statements of the file in which "=" gives nothing a value.
constexpr std::array<std::string_view, 6> kNoValue = {"typedef", "using",         "template",
                                                      "enum",    "static_assert", "_Static_assert"};

// Follows the words of a file at the outermost level, and of classes for the bodies of methods.
class DefinitionSearch {
 public:
  // True: something is defined.
  bool Take(std::string_view word) {
    const bool found = Judge(word);
    before_ = word;
    return found;
  }

 private:
  bool Judge(std::string_view word) {
    if (word == "(") {
      if (parentheses_++ == 0) counts_ = !IsAmong(kNoParameters, before_);
    } else if (word == ")") {
      if (--parentheses_ == 0 && counts_) has_parameters_ = true;
    } else if (parentheses_ > 0) {
      return false;
    } else if (word == "{") {
      // Old definitions have declarations of parameters between the two.
      const bool is_old = before_ == ";" && transparent() && had_parameters_;
      if (has_parameters_ || is_old) return true;
      braces_.push_back(first_ == "namespace" || first_ == "inline" || first_ == "extern");
      Begin();
    } else if (word == "}") {
      if (!braces_.empty()) braces_.pop_back();
      Begin();
    } else if (word == ";") {
      had_parameters_ = had_parameters_ || has_parameters_;
      first_ = {};
      has_parameters_ = false;
    } else if (word == "=" && transparent() && before_ != "operator") {
      return !IsAmong(kNoValue, first_);
    } else if (first_.empty()) {
      first_ = word;
    }
    return false;
  }
  void Begin() {
    first_ = {};
    has_parameters_ = had_parameters_ = false;
  }
  bool transparent() const {
    for (const bool one : braces_) {
      if (!one) return false;
    }
    return true;
  }

  std::vector<bool> braces_;  // of those open: whether what is inside is of the file
  std::string_view before_, first_;
  int parentheses_ = 0;
  bool counts_ = false, has_parameters_ = false, had_parameters_ = false;
};

// The end of a string or character constant that begins at `at`.
size_t EndOfQuoted(std::string_view text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c < 0;
}

// # 12 "path" 1 3
bool MarkerIsBelow(std::string_view line, std::string_view folder) {
  const size_t quote = line.find('"');
  return quote != std::string_view::npos && line.substr(quote + 1).starts_with(folder);
}

}  // namespace

bool DefinesSomething(std::string_view preprocessed, std::string_view folder) {
  DefinitionSearch search;
  bool counts = false, starts_line = true;
  for (size_t at = 0; at < preprocessed.size();) {
    const char c = preprocessed[at];
    if (c == '#' && starts_line) {
      const std::string_view line = preprocessed.substr(at, preprocessed.find('\n', at) - at);
      if (line.find('"') != std::string_view::npos && line.find("pragma") == line.npos) {
        counts = MarkerIsBelow(line, folder);
      }
      at += line.size();
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      starts_line = c == '\n' || (starts_line && c != '\n');
      ++at;
      continue;
    }
    starts_line = false;
    size_t end = at + 1;
    if (c == '"' || c == '\'') {
      end = EndOfQuoted(preprocessed, at);
    } else if (IsWordCharacter(c)) {
      while (end < preprocessed.size() && IsWordCharacter(preprocessed[end])) ++end;
    } else if (preprocessed.substr(at, 2) == "==") {
      end = at + 2;
    }
    if (counts && search.Take(preprocessed.substr(at, end - at))) return true;
    at = end;
  }
  return false;
}

}  // namespace tidemill
