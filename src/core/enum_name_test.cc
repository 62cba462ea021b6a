#include "core/enum_name.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

TEST(EnumName, IsWithoutThePrefixAndInLowerCase) {
  EXPECT_EQ(EnumName(v1::OUTCOME_CPU_LIMIT), "cpu_limit");
  EXPECT_EQ(EnumName(v1::EPISODE_END_MAX_TURNS), "max_turns");
  EXPECT_EQ(EnumName(v1::TURN_END_STOP), "stop");
  EXPECT_EQ(EnumName(v1::PURPOSE_EVAL), "eval");
  EXPECT_EQ(EnumName(static_cast<v1::Outcome>(99)), "unspecified");
}

TEST(EnumName, EveryEnumOfTheSchemaBeginsWithUnspecified) {
  const auto* file = v1::Task::descriptor()->file();
  for (int i = 0; i < file->enum_type_count(); ++i)
    EXPECT_EQ(EnumName(*file->enum_type(i), 0), "unspecified") << file->enum_type(i)->name();
}

}  // namespace
}  // namespace tidemill
