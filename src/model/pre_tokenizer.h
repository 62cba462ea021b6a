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
  // Gives every pre-token of `valid_utf8` that is not empty to `sink`, in order, until it returns
  // false. False: a pattern gave up on a piece (TextRegex::Found), and what was left of it stayed
  // whole.
  template <typename F>
  bool Split(std::string_view valid_utf8, F&& sink) const {
    Walk<F> walk{sink};
    Run(0, valid_utf8, walk);
    return !walk.gave_up;
  }

 private:
  template <typename F>
  struct Walk {
    F& sink;
    bool stopped = false;
    bool gave_up = false;
  };

  template <typename W>
  void Run(size_t stage, std::string_view piece, W& walk) const {
    if (piece.empty() || walk.stopped) return;
    if (stage == stages_.size()) {
      walk.stopped = !walk.sink(piece);
      return;
    }
    const PreTokenStage& s = stages_[stage];
    if (s.add_prefix_space && !piece.starts_with(' ')) {
      const std::string with_space = " " + std::string(piece);
      Cut(stage, with_space, walk);
    } else {
      Cut(stage, piece, walk);
    }
  }

  template <typename W>
  void Cut(size_t stage, std::string_view piece, W& walk) const {
    const PreTokenStage& s = stages_[stage];
    if (!s.pattern) return Run(stage + 1, piece, walk);
    size_t done = 0;              // everything before is given to the next stage
    size_t from = 0;              // where the next search starts
    bool matched_before = false;  // there was a match, which ended at `done`
    const TextRegex::Search search = s.pattern->In(piece);
    while (from <= piece.size() && !walk.stopped) {
      const auto [match, gave_up] = search.From(from);
      walk.gave_up = walk.gave_up || gave_up;
      if (!match) break;
      if (match->begin == match->end && matched_before && match->end == done) {
        // Empty, right behind the last one: go on a character later.
        from = NextCharacter(piece, from);
        continue;
      }
      if (s.keep_gaps) Run(stage + 1, piece.substr(done, match->begin - done), walk);
      if (s.keep_matches) {
        Run(stage + 1, piece.substr(match->begin, match->end - match->begin), walk);
      }
      done = from = match->end;
      matched_before = true;
    }
    if (s.keep_gaps) Run(stage + 1, piece.substr(done), walk);
  }

  static size_t NextCharacter(std::string_view text, size_t at) {
    do ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    return at;
  }

  std::vector<PreTokenStage> stages_;
};

}  // namespace tidemill
