// The files of a small Qwen2 decoder with tied embeddings: all of a Hugging Face model directory
// but the weights.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct SmallModel {
  std::string tokenizer;  // tokenizer.json
  std::string chat_template;
  std::string end;  // the token that ends an answer, and fills up
  int64_t end_id = 0;
  int64_t vocabulary = 0;
  int64_t width = 0;
  int64_t feed_forward = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t context = 0;  // longest sequence, in tokens
};

// Into `folder`, which is made where it is missing. kExists: a model with weights is there.
Status WriteSmallModel(const SmallModel& model, const std::string& folder);

}  // namespace tidemill
