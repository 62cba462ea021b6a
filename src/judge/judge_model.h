// The files of a small model that becomes a judge: tokenizer, chat template and config, without
// weights. Its template is the compact question itself (judge_question.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

struct JudgeModelShape {
  int64_t width = 64;
  int64_t layers = 3;
  int64_t heads = 4;
  int64_t context = 512;
  size_t vocabulary = 1000;
};

// Writes them into `folder`, which is made. The tokenizer's merges are learned from `corpus`.
Status WriteJudgeModelFiles(const std::string& folder, const JudgeModelShape& shape,
                            std::string_view corpus);

}  // namespace tidemill
