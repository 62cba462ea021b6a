// The files of a small model that becomes a judge: tokenizer, chat template and config, without
// weights. Its template is the compact question itself (judge_question.h).
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "testbeds/testbeds.h"

namespace tidemill {

// Writes them into `folder`, which is made. The tokenizer's merges are learned from `corpus`.
Status WriteJudgeModelFiles(const std::string& folder, const JudgeModelShape& shape,
                            std::string_view corpus);

}  // namespace tidemill
