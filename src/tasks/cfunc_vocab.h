// The vocabulary and shape of a model small enough to learn the family "cfunc" on a CPU: everything
// of a Hugging Face model directory but the weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

// A Qwen2 decoder with tied embeddings.
struct CfuncModelShape {
  int hidden_size = 64;
  int intermediate_size = 192;
  int layers = 3;
  int heads = 4;
  int context = 128;  // longest sequence, in tokens
};

// Every lexeme of several characters, in the order of their ids, which follow the 256 bytes: first
// the special <|end|> and <|fail|>, then what stands in prompts. Single characters are their bytes.
std::vector<std::string> CfuncLexemes();
inline constexpr int kCfuncSpecialLexemes = 2;

// Byte-level BPE without merges, in which each lexeme is one added token.
std::string CfuncTokenizerJson();
// The same of other lexemes, of which the first two are <|end|> and <|fail|>.
std::string LexemeTokenizerJson(const std::vector<std::string>& lexemes);
std::string CfuncTokenizerConfigJson();
std::string CfuncModelConfigJson(const CfuncModelShape& shape);
std::string CfuncGenerationConfigJson();

// Numbers held by all weights.
int64_t CfuncParameterCount(const CfuncModelShape& shape);

// Writes tokenizer.json, tokenizer_config.json, config.json and generation_config.json into `dir`,
// which is made where it is missing. kInvalid: a shape no model can have.
Status WriteCfuncModelFiles(const std::string& dir, const CfuncModelShape& shape);

// The same for the vocabulary of another family, with lexemes as LexemeTokenizerJson takes them.
Status WriteLexemeModelFiles(const std::string& dir, const std::vector<std::string>& lexemes,
                             const CfuncModelShape& shape);
int64_t LexemeParameterCount(size_t lexemes, const CfuncModelShape& shape);

}  // namespace tidemill
