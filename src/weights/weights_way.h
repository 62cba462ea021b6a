// How weights travel from a learner to the workers of other processes.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidemill {

// The faster first: shared memory of one host, files of a folder that both see, the run's broker.
enum class WeightsWay : uint8_t { kShm, kFiles, kBus };
inline constexpr WeightsWay kWeightsWays[] = {WeightsWay::kShm, WeightsWay::kFiles,
                                              WeightsWay::kBus};

// "shm", "files", "bus".
std::string_view WayName(WeightsWay way);

}  // namespace tidemill
