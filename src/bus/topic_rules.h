// The rules of a topic's name and options, in one place so that every bus applies the same.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "bus/bus.h"

namespace tidemill {

// kInvalid, naming the topic and the option that is wrong.
Status CheckTopic(std::string_view topic, const TopicOptions& options);

// Of the dead-letter topic.
inline constexpr size_t kDeadCapacity = 1 << 14;

// kNotFound and kFull, naming the topic.
Status NoTopic(std::string_view topic);
Status TopicFull(std::string_view topic);

// The worker whose topic this is; empty: nobody's in particular.
std::string TopicOwner(std::string_view topic);

// A delay as a bus takes it: not negative, and a year at most.
Duration ClampDelay(Duration delay);

}  // namespace tidemill
