// Regular expressions as tokenizer files write them (Oniguruma's dialect, Ruby syntax), run by
// PCRE2's just-in-time compiler. What the two dialects read differently is translated or refused.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// Immutable, thread-safe.
class TextRegex {
 public:
  // kInvalid says what in the pattern is wrong or not supported.
  static Result<TextRegex> FromOniguruma(std::string_view pattern);
  // PCRE2's own dialect, for patterns of this program and of adapters.
  static Result<TextRegex> FromPcre2(std::string_view pattern);

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };
  // The result of a search. One that costs more than the bounds on steps and memory gives up: then
  // nobody knows whether there is a match, and who asks must not take it for none.
  struct Found {
    std::optional<Match> match{};
    bool gave_up = false;
  };
  // The first match at or behind `from` in valid UTF-8.
  Found Find(std::string_view valid_utf8, size_t from) const { return In(valid_utf8).From(from); }

 private:
  struct Code;

 public:
  // For many searches in one text; must not outlive the expression or the text.
  class Search {
   public:
    Found From(size_t from) const;

   private:
    friend class TextRegex;
    Search(const Code& code, std::string_view text) : code_(code), text_(text) {}
    const Code& code_;
    std::string_view text_;
  };
  Search In(std::string_view valid_utf8) const;

 private:
  std::shared_ptr<const Code> code_;  // shared: copies are cheap, matching does not change it
  // The same with classes that have the characters PCRE2 does not know, which makes them slower:
  // for texts that have some. Null: no class of the expression has any.
  std::shared_ptr<const Code> newer_;
};

// The translation, by itself for its tests. `newer`: with the characters PCRE2 does not know.
Result<std::string> TranslateOniguruma(std::string_view pattern, bool newer = false);

}  // namespace tidemill
