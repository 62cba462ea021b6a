#include "rollout/job_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobTools, TheWishForTheBackgroundIsTakenOutOfTheArguments) {
  std::string arguments = R"({"files":["a.c"],"background":true})";
  EXPECT_TRUE(TakeBackgroundWish(arguments));
  EXPECT_EQ(arguments, R"({"files":["a.c"]})");
  arguments = R"({"background":"False"})";
  EXPECT_FALSE(TakeBackgroundWish(arguments));
  EXPECT_EQ(arguments, "{}");
  // Byte for byte as the model wrote them, where they wish for nothing.
  for (const char* as_it_is :
       {R"({ "files" : [] })", R"({"background": 3})", R"(["background"])", "background", ""}) {
    arguments = as_it_is;
    EXPECT_FALSE(TakeBackgroundWish(arguments));
    EXPECT_EQ(arguments, as_it_is);
  }
}

TEST(JobTools, AToolIsDescribedWithItsField) {
  const ToolDescription tool{"run_tests", "Run.", R"({"type":"object","properties":{}})"};
  const ToolDescription allowed = WithBackground(tool, BackgroundUse::kAllowed).value();
  EXPECT_EQ(nlohmann::json::parse(allowed.parameters_json)["properties"]["background"]["type"],
            "boolean");
  EXPECT_EQ(allowed.description, "Run.");
  const ToolDescription always = WithBackground(tool, BackgroundUse::kAlways).value();
  EXPECT_EQ(always.parameters_json, tool.parameters_json);
  EXPECT_THAT(always.description, HasSubstr("in the background"));
  const ToolDescription own{"x", "", R"({"properties":{"background":{"type":"string"}}})"};
  EXPECT_THAT(WithBackground(own, BackgroundUse::kAllowed).status().message(),
              HasSubstr("\"x\": an argument \"background\" of its own"));
}

TEST(JobTools, WaitsAreReadAndWhatIsWrongIsNamed) {
  const WaitOrder any = ReadWait("{}").value();
  EXPECT_TRUE(any.any && any.handles.empty() && !any.limit);
  const WaitOrder all = ReadWait(R"({"handles":["b1","b2"],"for":"all","timeout_s":0.5})").value();
  EXPECT_FALSE(all.any);
  EXPECT_THAT(all.handles, ElementsAre("b1", "b2"));
  EXPECT_EQ(all.limit, milliseconds(500));
  EXPECT_THAT(ReadWait("[]").status().message(), HasSubstr("JSON object"));
  EXPECT_THAT(ReadWait(R"({"handles":"b1"})").status().message(), HasSubstr("a list"));
  EXPECT_THAT(ReadWait(R"({"handles":[1]})").status().message(), HasSubstr("a list"));
  EXPECT_THAT(ReadWait(R"({"for":"one"})").status().message(), HasSubstr("\"any\" or \"all\""));
  EXPECT_THAT(ReadWait(R"({"timeout_s":-1})").status().message(), HasSubstr("0 or more"));
  EXPECT_THAT(ReadCancel("{}").status().message(), HasSubstr("\"handles\" is missing"));
  EXPECT_THAT(ReadCancel(R"({"handles":["b4"]})").value(), ElementsAre("b4"));
}

}  // namespace
}  // namespace tidemill
