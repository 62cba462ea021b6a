// A policy whose shape and whose words stand in different directories.
#pragma once

#include <string>

#include "core/status.h"
#include "gateway/served_policy.h"

namespace tidemill {

// What takes the place of what the directory says.
struct ServedWords {
  std::string tool_format = "auto";  // ModelChatOptions::tool_format
  std::string template_file{};       // ModelChatOptions::template_file
  std::string name{};                // of the model; empty: the directory's
};

// As ReadServedPolicy(dir), with tokenizer, chat template and generation settings from
// `tokenizer_dir`.
Result<ServedPolicy> ReadServedPolicyWith(const std::string& dir, const std::string& tokenizer_dir,
                                          const ServedWords& served);

}  // namespace tidemill
