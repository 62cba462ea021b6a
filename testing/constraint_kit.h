// Small vocabularies and draws under constraints, for tests.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/random.h"
#include "engine/constraint/constraint.h"

namespace tidemill {

// Tokens as they are listed, the end of a turn behind them.
struct WordVocabulary {
  std::vector<std::string> words;
  TokenId end = 0;
  std::shared_ptr<const TokenVocabulary> tokens;

  explicit WordVocabulary(std::vector<std::string> given) : words(std::move(given)) {
    std::vector<std::pair<std::string_view, TokenId>> texts;
    for (size_t i = 0; i < words.size(); ++i) {
      texts.emplace_back(words[i], static_cast<TokenId>(i));
    }
    end = static_cast<TokenId>(words.size());
    tokens = std::make_shared<const TokenVocabulary>(std::move(texts), std::vector<TokenId>{end},
                                                     end + 1);
  }

  // Every byte, and texts that cross the borders of JSON's parts.
  static WordVocabulary ForJson() {
    std::vector<std::string> words;
    for (int byte = 0; byte < 256; ++byte) words.emplace_back(1, static_cast<char>(byte));
    for (const char* word :
         {"{\"",  "\":",  "\": ",    "\",",   "\", \"",   "\"}", "\"}]",   "},",   "}, {\"", "],",
          "[[",   "[\"",  "true",    "false", "null",     "tr",  "ue}",    ": \"", "12",     "0.5",
          "-1",   "e-",   "\\n",     "\\u00", "\\\"",     " \"", "\n  \"", "abc",  "hello",  "é",
          "日本", "name", "name\":", "value", "a\", \"b", "10,", ", ",     "}}",   "]}"}) {
      words.emplace_back(word);
    }
    return WordVocabulary(std::move(words));
  }
};

// Whether the whole text is one of the language.
inline bool TakesText(const Constraint& constraint, std::string_view text) {
  ConstraintAutomaton& automaton = *constraint.automaton;
  return automaton.Accepts(automaton.Follow(automaton.start(), text));
}

// A whole text drawn under the constraint; empty `ended`: it had more tokens than `most`.
struct DrawnText {
  std::string text;
  bool ended = false;
};

// Half of the draws go to what closes something, so that texts come to an end.
inline DrawnText DrawText(const WordVocabulary& vocabulary,
                          const std::shared_ptr<const Constraint>& constraint, Random& random,
                          int most) {
  ConstraintMatcher matcher(constraint);
  DrawnText drawn;
  std::vector<TokenId> ids, closing;
  for (int i = 0; i < most; ++i) {
    ids.clear();
    closing.clear();
    matcher.Mask()->AppendIds(vocabulary.end + 1, ids);
    TM_CHECK(!ids.empty() && !matcher.astray(), "something always fits");
    for (const TokenId id : ids) {
      if (id == vocabulary.end ||
          std::string_view("\"]}").find(vocabulary.words[static_cast<size_t>(id)]) !=
              std::string_view::npos) {
        closing.push_back(id);
      }
    }
    const bool close = !closing.empty() && random.Below(2) == 0;
    const std::vector<TokenId>& from = close ? closing : ids;
    const TokenId id = from[random.Below(from.size())];
    if (id == vocabulary.end) {
      drawn.ended = true;
      return drawn;
    }
    drawn.text += vocabulary.words[static_cast<size_t>(id)];
    matcher.Take(id);
  }
  return drawn;
}

}  // namespace tidemill
