#include "config/teacher_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using testing::HasSubstr;

std::string CheckOf(const std::vector<std::string>& settings) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  for (const std::string& setting : settings) {
    const Status set = binder.Set(setting);
    EXPECT_TRUE(set.ok()) << set.ToString();
  }
  return CheckTeacher(config, binder).message();
}

TEST(TeacherKeys, OneTeacherIsEnough) {
  EXPECT_EQ(CheckOf({}), "");
  EXPECT_EQ(CheckOf({"teacher.model=there"}), "");
  EXPECT_EQ(CheckOf({"teacher.policy=true", "teacher.hints=errors"}), "");
  EXPECT_THAT(CheckOf({"teacher.model=there", "teacher.endpoint=http://there"}),
              HasSubstr("teacher.endpoint"));
  EXPECT_THAT(CheckOf({"teacher.model=there", "teacher.policy=true"}),
              HasSubstr("is a second teacher"));
}

TEST(TeacherKeys, HintsNeedATeacherAndWhatTheyAreMadeFrom) {
  EXPECT_THAT(CheckOf({"teacher.policy=true"}), HasSubstr("needs teacher.hints"));
  EXPECT_THAT(CheckOf({"teacher.hints=errors"}), HasSubstr("has no teacher"));
  EXPECT_THAT(CheckOf({"teacher.policy=true", "teacher.hints=judge"}),
              HasSubstr("needs a [[judge]] of turns"));
  EXPECT_THAT(CheckOf({"teacher.policy=true", "teacher.hints=judge_strongest"}),
              HasSubstr("needs a [[judge]] of turns"));
}

}  // namespace
}  // namespace tidemill
