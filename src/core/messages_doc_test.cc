// Every example of docs/messages.md is read as the message its heading names.
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "proto/tidemill.pb.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

TEST(MessagesPage, EveryExampleIsAMessageOfTheSchemaAndEveryTopLevelMessageHasOne) {
  std::ifstream page(SourceDir() + "/docs/messages.md");
  ASSERT_TRUE(page.good());
  const google::protobuf::FileDescriptor* file = v1::Task::descriptor()->file();
  std::set<std::string> shown;
  std::string line, heading, json;
  bool inside = false;
  while (std::getline(page, line)) {
    if (line.rfind("## ", 0) == 0) heading = line.substr(3);
    if (line == "```json") {
      inside = true, json.clear();
    } else if (line == "```" && inside) {
      inside = false;
      const auto* type = file->FindMessageTypeByName(heading);
      ASSERT_NE(type, nullptr) << heading;
      const auto* prototype =
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(type);
      std::unique_ptr<google::protobuf::Message> message(prototype->New());
      const auto status = google::protobuf::util::JsonStringToMessage(json, message.get());
      EXPECT_TRUE(status.ok()) << heading << ": " << status.ToString();
      shown.insert(heading);
    } else if (inside) {
      json += line + "\n";
    }
  }
  for (const char* name :
       {"Task", "GroupLease", "DispatchEvent", "ToolRequest", "ToolResult", "Trajectory",
        "ScoreRequest", "Verdict", "PolicyAnnouncement", "PolicyLog", "Heartbeat", "DeadLetter"}) {
    EXPECT_EQ(shown.count(name), 1u) << name;
  }
}

}  // namespace
}  // namespace tidemill
