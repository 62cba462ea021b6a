// The peer RedisBus is measured against: hiredis and nothing else, a pipeline written for the
// occasion.
#pragma once

#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

// Messages a second that are published, received and acknowledged with the commands and payloads
// that RedisBus sends, in batches of 128, two rounds on their way at a time. The run's topic
// "bench" exists.
Result<double> MeasureBareRedis(const std::string& url, std::string_view run, size_t payload_bytes,
                                Duration time);

}  // namespace tidemill
