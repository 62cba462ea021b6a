// Finds the tool calls of a model's turn while it is drawn, as ReadTurn finds them when it is over.
//
//   ids as they come -> bytes -> whole characters -> OutputParser -> WrittenCalls that are complete
#pragma once

#include <span>
#include <string>
#include <vector>

#include "conversation/written_turn.h"

namespace tidemill {

// Of one turn; not thread-safe. `chat` must outlive it.
class CallWatch {
 public:
  // As for ReadTurn.
  CallWatch(const ModelChat& chat, bool thinking_open, const nlohmann::ordered_json& tools);

  // The calls that are complete with the next ids of the turn.
  std::vector<WrittenCall> Push(std::span<const TokenId> ids);
  // A call has begun.
  bool called() const { return called_; }

 private:
  const ModelChat& chat_;
  const OutputFormat format_;
  OutputParser parser_;
  WrittenCall call_;  // that is being read
  bool called_ = false;
};

}  // namespace tidemill
