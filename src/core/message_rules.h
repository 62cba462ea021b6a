// The rows of the table of message bounds. Of message_check.cc alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/message_check.h"

namespace tidemill {

using MessageLimit = uint64_t MessageLimits::*;

struct FieldRule {
  enum class Kind {
    kText,    // strings and bytes: their length
    kPath,    // a path in a workspace (core/paths.h)
    kHash,    // SHA-256 in hex, or empty
    kTopic,   // a topic's name, or empty
    kNumber,  // finite, and from `low` to `high`
    kEnum,    // a value of the schema
    kFlag,    // a bool
    kPart,    // a message with rows of its own
  };
  std::string_view field;  // "Turn.logprobs"
  Kind kind;
  double low = 0;
  double high = 0;               // of a text: bytes
  MessageLimit limit = nullptr;  // instead of `high`
  bool below = false;            // the limit itself is too large
  MessageLimit count = nullptr;  // of a repeated field: most elements
  bool needed = false;           // not empty, not absent, not "not said"
};

std::span<const FieldRule> MessageRules();

}  // namespace tidemill
