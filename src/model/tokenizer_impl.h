// The parts of a Tokenizer; shared by its reader (tokenizer_json.cc) and its use
// (tokenizer.cc).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/added_tokens.h"
#include "model/bpe.h"
#include "model/pre_tokenizer.h"
#include "model/tokenizer.h"

namespace tidemill {

// The parts as they are read; Tokenizer::Impl puts them to use.
struct TokenizerParts {
  bool nfc = false;
  std::vector<PreTokenStage> stages;
  BpeVocabulary vocabulary;
  std::vector<std::pair<std::pair<TokenId, TokenId>, TokenId>> merges;  // by rank
  std::vector<AddedToken> added;                                        // in the file's order
  std::vector<std::string> token_bytes;  // by id; empty: no such token
};

Result<TokenizerParts> ParseTokenizerParts(std::string_view json, std::string_view name);

}  // namespace tidemill
