#include "bus/standard_topics.h"

#include <gtest/gtest.h>

#include <set>

#include "bus/memory/memory_bus.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

TEST(Topics, EveryRowIsOpenedAndCarriesAMessageOfTheSchema) {
  const RealClock clock;
  MemoryBus bus(clock);
  ASSERT_TRUE(OpenStandardTopics(bus, {}).ok());
  std::set<std::string_view> names;
  for (const TopicRow& row : kTopics) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands twice";
    EXPECT_TRUE(bus.Depth(row.name).ok()) << row.name;
    const auto* file = v1::Task::descriptor()->file();
    EXPECT_NE(file->FindMessageTypeByName(std::string(row.message)), nullptr) << row.message;
  }
}

}  // namespace
}  // namespace tidemill
