// Cuts text into pre-tokens: the stages of tokenizer.json's pre_tokenizer, one behind the other.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/text_regex.h"

namespace tidemill {

// A stage cuts each piece it is given at the matches of a pattern and keeps matches, gaps or both.
struct PreTokenStage {
  std::optional<TextRegex> pattern;  // none: the piece stays whole
  bool keep_matches = true;
  bool keep_gaps = true;
  bool add_prefix_space = false;  // a piece that does not start with a space gets one first
};

class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenStage> stages) : stages_(std::move(stages)) {}
  // Gives every pre-token of `valid_utf8` that is not empty to `sink`, in order. A piece a pattern
  // cannot be matched on within its bounds stays whole.
  template <typename F>
  void Split(std::string_view valid_utf8, F&& sink) const {
    Run(0, valid_utf8, sink);
  }

 private:
  template <typename F>
  void Run(size_t stage, std::string_view piece, F& sink) const {
    if (piece.empty()) return;
    if (stage == stages_.size()) {
      sink(piece);
      return;
    }
    const PreTokenStage& s = stages_[stage];
    if (s.add_prefix_space && !piece.starts_with(' ')) {
      const std::string with_space = " " + std::string(piece);
      Cut(stage, with_space, sink);
    } else {
      Cut(stage, piece, sink);
    }
  }

  template <typename F>
  void Cut(size_t stage, std::string_view piece, F& sink) const {
    const PreTokenStage& s = stages_[stage];
    if (!s.pattern) return Run(stage + 1, piece, sink);
    size_t done = 0;              // everything before is given to the next stage
    size_t from = 0;              // where the next search starts
    bool matched_before = false;  // there was a match, which ended at `done`
    const TextRegex::Search search = s.pattern->In(piece);
    while (from <= piece.size()) {
      const std::optional<TextRegex::Match> match = search.From(from);
      if (!match) break;
      if (match->begin == match->end && matched_before && match->end == done) {
        // Empty, right behind the last one: go on a character later.
        from = NextCharacter(piece, from);
        continue;
      }
      if (s.keep_gaps) Run(stage + 1, piece.substr(done, match->begin - done), sink);
      if (s.keep_matches) {
        Run(stage + 1, piece.substr(match->begin, match->end - match->begin), sink);
      }
      done = from = match->end;
      matched_before = true;
    }
    if (s.keep_gaps) Run(stage + 1, piece.substr(done), sink);
  }

  static size_t NextCharacter(std::string_view text, size_t at) {
    do ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    return at;
  }

  std::vector<PreTokenStage> stages_;
};

}  // namespace tidemill
