#include "live/live_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "store/session_reader.h"
#include "testing/live_fixture.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

class LiveRunTest : public testing::Test {
 protected:
  void Open() {
    auto run = LiveRun::Open(dir_.path(), "r", "# nothing\n", policy_, clock_, {});
    ASSERT_TRUE(run.ok()) << run.status().message();
    run_ = std::move(*run);
  }

  // The prompt and the ids of one more turn of the conversation, durable.
  std::vector<TokenId> Turn(const std::string& answer) {
    const ChatRequest request = RequestOf(messages_);
    const Tenant tenant{.name = "t", .consent = Consent::kTrain};
    const std::map<std::string, std::string> headers;
    auto prompt = run_->Prepare({.request = request,
                                 .tenant = tenant,
                                 .headers = headers,
                                 .request_id = "r",
                                 .body_sha256 = Sha256Hex(messages_.dump()),
                                 .wall_ms = clock_.WallMs()});
    EXPECT_TRUE(prompt.ok());
    const Asked asked{*prompt, Ok()};
    std::vector<TokenId> ids = DrawIds(policy_, answer, random_);
    const WireJson message = ReadMessage(policy_, answer);
    std::promise<Status> stored;
    run_->Finished(LiveWorld::Turn(asked, ids, message, {}, 0),
                   [&](Status status) { stored.set_value(std::move(status)); });
    const Status told = stored.get_future().get();
    EXPECT_TRUE(told.ok()) << told.message();
    messages_.push_back(message);
    messages_.push_back(UserMessage("go on"));
    std::vector<TokenId> all = prompt->prompts[0];
    all.insert(all.end(), ids.begin(), ids.end());
    return all;
  }

  TemporaryDirectory dir_;
  RealClock clock_;
  Random random_{11};
  ServedPolicy policy_ = TestPolicy(kTestTemplate);
  WireJson messages_ = WireJson::array({UserMessage("hello")});
  std::unique_ptr<LiveRun> run_;
};

TEST_F(LiveRunTest, SessionsSurviveARestartAndGoOnExactly) {
  std::vector<TokenId> before;
  for (int i = 0; i < 4; ++i) {
    Open();
    const std::vector<TokenId> all = Turn("answer " + std::to_string(i));
    ASSERT_GT(all.size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), all.begin()));
    before = all;
    run_.reset();
  }
  const auto reader = SessionReader::Open(dir_ / "r/run.db");
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  const auto rows = (*reader)->List({}, 10);
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ((*rows)[0].turns, 4u);
  EXPECT_EQ((*rows)[0].questions, 4u);
}

TEST_F(LiveRunTest, ARunHasOneWriter) {
  Open();
  const auto second = LiveRun::Open(dir_.path(), "r", "", policy_, clock_, {});
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_EQ(LiveRun::Open(dir_.path(), "../x", "", policy_, clock_, {}).status().code(),
            Code::kInvalid);
}

}  // namespace
}  // namespace tidemill
