#include "bench/memory_arms.h"

namespace tidemill {
namespace {

constexpr Arm kArms[] = {
    {.name = "off", .shows = false},
    {.name = "retry only", .shows = false, .retries = true},
    {.name = "random", .how = Retrieval::kRandom},
    {.name = "nearest"},
    {.name = kHiddenStatesArm, .how = Retrieval::kHidden},
    {.name = "nearest, newest first", .how = Retrieval::kNewest},
    {.name = "learned", .how = Retrieval::kLearned},
    {.name = "oracle", .shows = false, .oracle = true},
    {.name = "permuted answers", .shuffled = true},
    {.name = "another project", .another = true},
    {.name = "successes only", .failures = false},
};

}  // namespace

const Arm* ArmNamed(const std::string& name) {
  for (const Arm& arm : kArms) {
    if (name == arm.name) return &arm;
  }
  return nullptr;
}

const std::vector<std::string>& MemoryArms() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Arm& arm : kArms) names.emplace_back(arm.name);
    return names;
  }();
  return kNames;
}

}  // namespace tidemill
