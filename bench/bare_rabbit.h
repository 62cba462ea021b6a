// The peer RabbitBus is measured against: librabbitmq and nothing else, a loop written for the
// occasion.
#pragma once

#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

// Messages a second that are published with confirms, delivered and acknowledged one by one on a
// durable queue, as RabbitBus does, with many on their way. Makes the queue and deletes it.
Result<double> MeasureBareRabbit(const std::string& url, std::string_view run, size_t payload_bytes,
                                 Duration time);

}  // namespace tidemill
