#include "bus/redis/topic_janitor.h"

#include <gmock/gmock.h>

#include "core/topics.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TopicJanitor, KnowsWhoseATopicIs) {
  EXPECT_EQ(TopicOwner(InboxTopic("rollout-host.example.org-17", "rollout")),
            "rollout-host.example.org-17");
  EXPECT_EQ(TopicOwner(ToolCancelTopic("tools-host-3")), "tools-host-3");
  EXPECT_EQ(TopicOwner(kGroupsTopic), "");
  EXPECT_EQ(TopicOwner("inbox.x"), "");
  EXPECT_EQ(TopicOwner("dead"), "");
}

TEST(TopicJanitor, TakesOnlyWhatHadNoOwnerTwice) {
  const std::vector<std::string> topics = {"rollout.groups", "dead", InboxTopic("a", "rollout"),
                                           InboxTopic("b", "rollout"), ToolCancelTopic("c")};
  std::set<std::string> suspects;
  // b's heartbeat is late at the first look, c's at both.
  EXPECT_THAT(OrphanTopics(topics, {"a"}, suspects), IsEmpty());
  EXPECT_THAT(OrphanTopics(topics, {"a", "b"}, suspects), ElementsAre(ToolCancelTopic("c")));
  EXPECT_THAT(OrphanTopics(topics, {"a", "b", "c"}, suspects), IsEmpty());
  EXPECT_THAT(suspects, IsEmpty());
}

}  // namespace
}  // namespace tidemill
