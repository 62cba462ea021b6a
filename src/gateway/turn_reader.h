// One choice of an answer, from the engine's tokens to what the client is told.
//
//   TurnOutput (new tokens) -> bytes -> whole characters -> OutputParser -> AnswerDelta
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conversation/tool_formats/output_parser.h"
#include "engine/engine.h"
#include "gateway/answer.h"
#include "gateway/served_policy.h"

namespace tidemill {

struct TurnReaderOptions {
  OutputParserOptions parser{};
  bool records = false;   // AnswerDelta::tokens are wanted
  bool one_call = false;  // the answer ends with its first call
};

// The part of a request that decides how its answers are read.
TurnReaderOptions ReaderOptionsFor(const ServedPolicy& policy, const ChatRequest& request,
                                   bool thinking_open);

// Puts `event` behind `events`, into the last one where it only goes on with it.
void AppendEvent(OutputEvent event, std::vector<OutputEvent>& events);

// Not thread-safe. `policy` must outlive it. What it gives adds up to the same events however the
// tokens are cut into parts.
class TurnReader {
 public:
  TurnReader(const ServedPolicy& policy, TurnReaderOptions options);

  // `part` follows what came before; `done`: it is the last. Special tokens are not text, nor is
  // the token that ends a turn; a stop string and what is behind it is left out, and bytes that may
  // begin one are held back.
  AnswerDelta Push(const TurnOutput& part, bool done);

  // The first call is complete and no other is wanted: nothing more is told.
  bool closed() const { return closed_; }
  // Tokens that brought reasoning.
  int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  struct Unread {
    std::string bytes;   // what is text of it
    uint32_t drawn = 0;  // how many bytes the engine counts for it
  };
  void Record(const TurnOutput& part, AnswerDelta& out) const;
  void Read(std::string_view bytes, std::vector<OutputEvent>& events);
  void Close(std::vector<OutputEvent>& events);

  const ServedPolicy& policy_;
  const TurnReaderOptions options_;
  OutputParser parser_;
  std::vector<Unread> unread_;
  uint64_t drawn_ = 0;  // bytes of drawn tokens so far, as the engine counts
  uint64_t read_ = 0;   // of these, given to the parser or left out
  std::string part_of_character_;
  bool closed_ = false;
  int64_t reasoning_tokens_ = 0;
};

}  // namespace tidemill
