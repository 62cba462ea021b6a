#include "bus/client_view.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(ClientView, AnInboxThatIsBackTakesRepliesAgainAtOnce) {
  const RealClock clock;
  ClientView local({}, clock);
  local.InboxGone("inbox.asker");
  EXPECT_EQ(local.PublishReply("inbox.asker", "late").code(), Code::kNotFound);
  local.HeardAll({{"inbox.other", {}}});
  EXPECT_EQ(local.PublishReply("inbox.asker", "late").code(), Code::kNotFound);
  // Who opened it has asked anew, and waits.
  local.HeardAll({{"inbox.asker", {}}, {"inbox.other", {}}});
  EXPECT_TRUE(local.PublishReply("inbox.asker", "in time").ok());
}

TEST(ClientView, AnInboxOnItsWayOutIsNotBackBecauseTheServerStillListsIt) {
  const RealClock clock;
  ClientView local({}, clock);
  ASSERT_TRUE(local.Open("inbox.asker", {}).ok());
  ASSERT_TRUE(local.Remove("inbox.asker").ok());
  local.HeardAll({{"inbox.asker", {}}});
  EXPECT_EQ(local.PublishReply("inbox.asker", "late").code(), Code::kNotFound);
}

}  // namespace
}  // namespace tidemill
