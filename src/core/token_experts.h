// Routing kept: the experts that the engine gave each token of a sequence to, so that the learner
// replays them instead of asking routers that may by now answer otherwise.
//
//   engine -> TokenExperts of a turn -> v1::TokenExperts -> store, exports, learner
//
// A row is a token of the sequence that the model read. The last token of a turn is read in the
// turn behind it, so its row comes with that turn. A row has two bytes for each layer with experts
// and each expert chosen there, the lower byte first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill::v1 {
class TokenExperts;
}

namespace tidemill {

struct TokenExperts {
  uint32_t first = 0;            // which token of the sequence the first row is of
  uint32_t choices = 0;          // of one row
  std::vector<uint16_t> chosen;  // [row][choices]

  bool empty() const { return chosen.empty(); }
  size_t rows() const { return choices == 0 ? 0 : chosen.size() / choices; }
  // Rows that follow those that are there.
  void Append(const TokenExperts& more);
};

// Rows from token `from_token` on.
void FillExperts(const TokenExperts& from, uint32_t from_token, v1::TokenExperts& to);

// kInvalid: bytes that are no whole rows, or more rows than `tokens`.
Status CheckExperts(const v1::TokenExperts& experts, uint64_t tokens);

// Of one that is right (CheckExperts).
TokenExperts ReadExperts(const v1::TokenExperts& experts);

}  // namespace tidemill
