#include "core/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace tidemill {
namespace {

TEST(AvailableMemory, IsSomethingAndNotMoreThanThereCanBe) {
  const uint64_t available = AvailableMemoryBytes();
  EXPECT_GT(available, uint64_t{16} << 20);
  EXPECT_LT(available, uint64_t{1} << 50);
}

TEST(UseHugePages, LeavesMemoryUsableWhateverItsSizeAndPlace) {
  for (const size_t bytes : {size_t{0}, size_t{100}, (size_t{2} << 20) + 1, size_t{5} << 20}) {
    const auto data = std::make_unique<char[]>(bytes + 1);
    UseHugePages(data.get() + 1, bytes);
    std::memset(data.get(), 7, bytes + 1);
    EXPECT_EQ(data[bytes], 7);
  }
}

}  // namespace
}  // namespace tidemill
