// The vocabulary and shape of a model small enough to learn the family "cfunc" on a CPU: everything
// of a Hugging Face model directory but the weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "testbeds/testbeds.h"

namespace tidemill {

// Every lexeme of several characters, in the order of their ids, which follow the 256 bytes: first
// the special <|end|> and <|fail|>, then what stands in prompts. Single characters are their bytes.
std::vector<std::string> CfuncLexemes();
inline constexpr int kCfuncSpecialLexemes = 2;

// Byte-level BPE without merges, in which each lexeme is one added token; the first two are
// <|end|> and <|fail|>.
std::string LexemeTokenizerJson(const std::vector<std::string>& lexemes);

// Writes tokenizer.json, tokenizer_config.json, config.json and generation_config.json into `dir`,
// which is made where it is missing. kInvalid: a shape no model can have.
Status WriteLexemeModelFiles(const std::string& dir, const std::vector<std::string>& lexemes,
                             const FamilyModelShape& shape);
// Numbers held by all weights.
int64_t LexemeParameterCount(size_t lexemes, const FamilyModelShape& shape);

}  // namespace tidemill
