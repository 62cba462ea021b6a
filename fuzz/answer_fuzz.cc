// What a scorer of somebody else's answers. An answer that is taken is within its bounds, and what
// is said of one that is not can go into a message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/text.h"
#include "reward/scorer_port.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const auto answer = ParseAnswer(std::string(reinterpret_cast<const char*>(data), size));
  if (!answer.ok()) {
    if (!IsUtf8(answer.status().message())) std::abort();
    return 0;
  }
  if (!(answer->score >= -1 && answer->score <= 1) || !IsUtf8(answer->comment)) std::abort();
  for (const auto& [name, part] : answer->parts) {
    if (!(part.score >= 0 && part.score <= 1) || !IsUtf8(part.comment)) std::abort();
  }
  for (const double reward : answer->turn_rewards) {
    if (!(reward >= -1 && reward <= 1)) std::abort();
  }
  return 0;
}
