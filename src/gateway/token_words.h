// Text and ids for clients that render prompts themselves: POST /tokenize and /detokenize.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "gateway/chat_request.h"
#include "model/tokenizer.h"

namespace tidemill {

// {count, max_model_len, tokens, token_strs}.
std::string TokenizedBody(const Tokenizer& tokenizer, const ChatRequest& request,
                          const std::vector<TokenId>& ids, int64_t context_tokens);

// {prompt}. kInvalid names an id that is outside the vocabulary.
Result<std::string> DetokenizedBody(const Tokenizer& tokenizer, const std::vector<TokenId>& ids);

}  // namespace tidemill
