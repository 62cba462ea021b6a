#include "scale/broker_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/topics.h"
#include "observe/run_status.h"

namespace tidemill {
namespace {

// The topics of a run, each with something on it, and those of its workers.
RunStatus Everything() {
  RunStatus status;
  uint64_t count = 1;
  const auto add = [&](std::string name) {
    TopicState topic;
    topic.name = std::move(name);
    topic.ready = count, topic.delayed = 2 * count, topic.leased = 3 * count;
    count *= 10;
    status.topics.push_back(topic);
  };
  for (const TopicRow& row : kTopics) add(std::string(row.name));
  add(ToolCancelTopic("tools-1"));
  add(InboxTopic("rollout-1", "rollout"));
  add("dead");
  return status;
}

// The backlog is what KEDA scales by (deploy/kubernetes/keda.yaml).
TEST(ToolLoads, AreWhatTheBacklogCountsToo) {
  const RunStatus status = Everything();
  uint64_t seen = 0;
  for (const TopicLoad& load : ToolLoads(status.topics)) seen += load.ready + load.leased;
  EXPECT_EQ(seen, status.ToolBacklog());
  EXPECT_GT(seen, 0u);
}

TEST(ToolLoads, AreTheTopicsThatToolWorkersServeWithoutTheirCancellations) {
  std::vector<std::string> expected;
  for (const TopicRow& row : kTopics) {
    if (row.consumer == "tools") expected.emplace_back(row.name);
  }
  std::vector<std::string> names;
  for (const TopicLoad& load : ToolLoads(Everything().topics)) names.push_back(load.topic);
  EXPECT_THAT(names, testing::ElementsAreArray(expected));
  EXPECT_THAT(names, testing::Contains("tools.grade"));
  EXPECT_THAT(names, testing::Not(testing::Contains("tools.cancel.tools-1")));
}

}  // namespace
}  // namespace tidemill
