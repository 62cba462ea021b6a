// A run's sheet, as a worker reads it from Redis.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "run/sheet_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto sheet = OpenSheet(text, {});
  if (!sheet.ok()) return 0;
  if (sheet->signed_by_learner) std::abort();
  if (!OpenSheet(sheet->ToJson(), {}).ok()) std::abort();
  return 0;
}
