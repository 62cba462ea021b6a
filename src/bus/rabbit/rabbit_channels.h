// The channels of a bus's connection. What closes one does not touch the others.
#pragma once

#include <cstdint>

namespace tidemill {

inline constexpr uint16_t kRabbitMain = 1;         // publishes, deliveries, topics
inline constexpr uint16_t kRabbitSide = 2;         // questions whose answer may be that it is gone
inline constexpr uint16_t kRabbitBookChannel = 3;  // the run's book

inline constexpr int kRabbitNoQueue = 404;

}  // namespace tidemill
