#include "weights/weights_way.h"

namespace tidemill {

std::string_view WayName(WeightsWay way) {
  switch (way) {
    case WeightsWay::kShm:
      return "shm";
    case WeightsWay::kFiles:
      return "files";
    case WeightsWay::kBus:
      return "bus";
  }
  return "";
}

}  // namespace tidemill
