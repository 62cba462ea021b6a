// The support of a draw: the tokens that truncated or constrained sampling left to draw from,
// recorded so that training normalises over them.
//
//   sampler -> EncodeSupport -> TokenSupports of a turn -> v1::TokenSupports -> learner, exports
//
// The bytes of one support begin with a letter:
//   "r": runs of consecutive ids, ascending: tokens left out before it, tokens in it, each a
//        varint (seven bits a byte, the lowest first)
//   "b": a bit for each id, the lowest bit of the first byte first; no zero byte at the end
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill::v1 {
class TokenSupports;
}

namespace tidemill {

// Ids first .. first + count - 1.
struct TokenRun {
  int32_t first = 0;
  int32_t count = 0;
};

// `ids` ascend, each once, at least one. The shorter of the two forms.
std::string EncodeSupport(std::span<const int32_t> ids);

// Ascending, not empty and with something between them. kInvalid: not such bytes, or an id that is
// not below `vocabulary`.
Result<std::vector<TokenRun>> DecodeSupport(std::string_view support, int64_t vocabulary);

bool InRuns(std::span<const TokenRun> runs, int32_t id);

// The supports of consecutive tokens; equal ones near each other are kept once.
struct TokenSupports {
  std::vector<std::string> sets;
  std::vector<uint32_t> set_of;  // by token: its place in `sets`

  bool empty() const { return set_of.empty(); }
  void Add(std::string support);
  void Append(const TokenSupports& more);
};

// Those behind the first `skip` tokens.
void FillSupports(const TokenSupports& from, uint32_t skip, v1::TokenSupports& to);
void FillSupports(const v1::TokenSupports& from, uint32_t skip, v1::TokenSupports& to);

// kInvalid names what does not fit: not one set for each id, a set that is none, or without the id.
Status CheckSupports(const v1::TokenSupports& supports, std::span<const uint32_t> ids,
                     int64_t vocabulary);

}  // namespace tidemill
