// Makes tokenizer.json, for models that start from nothing (demonstrations, tests).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "model/tokenizer.h"

namespace tidemill {

// The pre-token patterns of the model families.
extern const char kQwenPattern[];
extern const char kLlama3Pattern[];

struct TokenizerSpec {
  std::vector<std::string> tokens;                          // as bytes; the id is the index
  std::vector<std::pair<std::string, std::string>> merges;  // as bytes, most wanted first
  std::vector<AddedToken> added;  // ids may lie among the tokens (same content) or behind them
  std::string pattern = kQwenPattern;
  bool nfc = true;
  bool ignore_merges = false;
};

// Tokens for every byte (ids 0..255) and the special tokens behind them.
TokenizerSpec ByteTokenizerSpec(const std::vector<std::string>& special_tokens);

// Learns merges from `corpus` until `spec` has `vocab_size` tokens or no pair occurs twice, the
// most frequent pair first, ties by the smaller ids. Added tokens keep their place: they must lie
// among tokens.
Status LearnMerges(std::string_view corpus, size_t vocab_size, TokenizerSpec& spec);

// kInvalid: a token twice, a merge whose parts or result are no tokens, an added token out of
// place.
Result<std::string> TokenizerJson(const TokenizerSpec& spec);

// The part "model" of a tokenizer.json: byte-level BPE.
nlohmann::ordered_json BpeModelJson(nlohmann::ordered_json vocab, nlohmann::ordered_json merges,
                                    bool ignore_merges);

}  // namespace tidemill
