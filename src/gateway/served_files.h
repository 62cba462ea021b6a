// A policy whose shape and whose words stand in different directories.
#pragma once

#include <string>

#include "core/status.h"
#include "gateway/served_policy.h"

namespace tidemill {

// As ReadServedPolicy(dir), with tokenizer, chat template and generation settings from
// `tokenizer_dir`. `tool_format`: ModelChatOptions::tool_format.
Result<ServedPolicy> ReadServedPolicyWith(const std::string& dir, const std::string& tokenizer_dir,
                                          const std::string& tool_format);

}  // namespace tidemill
