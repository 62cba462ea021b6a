#include "live/erase.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "bus/memory/memory_bus.h"
#include "core/secret.h"
#include "core/topics.h"
#include "live/erase_bus.h"
#include "live/live_operator.h"
#include "live/live_run.h"
#include "store/session_reader.h"
#include "testing/live_fixture.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::ElementsAre;

class EraseTest : public testing::Test {
 protected:
  void SetUp() override {
    auto run = LiveRun::Open(dir_.path(), "r", "", policy_, clock_, {});
    ASSERT_TRUE(run.ok()) << run.status().message();
    run_ = std::move(*run);
    run_->OnErased([this](const std::string& tenant) { forgotten_.push_back(tenant); });
  }

  Asked Ask(const std::string& tenant, const WireJson& messages,
            Consent consent = Consent::kTrain) {
    requests_.push_back(RequestOf(messages));
    tenants_.push_back(Tenant{.name = tenant, .consent = consent});
    auto prompt = run_->Prepare({.request = requests_.back(),
                                 .tenant = tenants_.back(),
                                 .headers = headers_,
                                 .request_id = "r",
                                 .body_sha256 = Sha256Hex(messages.dump() + tenant),
                                 .wall_ms = clock_.WallMs()});
    TM_CHECK(prompt.ok(), prompt.status().message());
    return {*prompt, Ok()};
  }
  // What the client is told at the end.
  Status Answer(const Asked& asked, const std::string& text) {
    std::promise<Status> stored;
    run_->Finished(
        LiveWorld::Turn(asked, DrawIds(policy_, text, random_), ReadMessage(policy_, text), {}, 0),
        [&](Status status) { stored.set_value(std::move(status)); });
    return stored.get_future().get();
  }
  void Talk(const std::string& tenant, const std::string& words,
            Consent consent = Consent::kTrain) {
    ASSERT_TRUE(Answer(Ask(tenant, WireJson::array({UserMessage(words)}), consent), words).ok());
  }
  std::vector<std::string> TenantsLeft() const {
    std::vector<std::string> left;
    const auto reader = SessionReader::Open(dir_ / "r/run.db");
    const auto rows = (*reader)->List({}, 100);
    for (const SessionRow& row : *rows) {
      if (!row.session.tenant().empty()) left.push_back(row.session.tenant());
    }
    return left;
  }

  TemporaryDirectory dir_;
  RealClock clock_;
  Random random_{5};
  ServedPolicy policy_ = TestPolicy(kTestTemplate);
  const std::map<std::string, std::string> headers_;
  std::deque<ChatRequest> requests_;
  std::deque<Tenant> tenants_;
  std::vector<std::string> forgotten_;
  std::unique_ptr<LiveRun> run_;
};

TEST_F(EraseTest, ATenantIsDeletedWhileTheRunGoesOn) {
  Talk("ann", "what ann said to the model in confidence");
  Talk("bob", "what bob said to the model in confidence");
  const auto report = run_->Erase({.tenant = "ann"});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->erased.sessions.size(), 1u);
  EXPECT_TRUE(report->found.empty()) << report->found[0];
  EXPECT_TRUE(report->unread.empty());
  EXPECT_GT(report->traces, 8u);
  EXPECT_GE(report->files, 2u);
  EXPECT_THAT(TenantsLeft(), ElementsAre("bob"));
  EXPECT_THAT(forgotten_, ElementsAre("ann"));
  Talk("ann", "ann may come back, as somebody new");
  EXPECT_THAT(TenantsLeft(), ElementsAre("ann", "bob"));
}

TEST_F(EraseTest, ATurnUnderWayIsAnsweredAndNotStored) {
  Talk("ann", "the first thing that ann said");
  const Asked open = Ask(
      "ann", WireJson::array({UserMessage("the first thing that ann said"),
                              {{"role", "assistant"}, {"content", "the first thing that ann said"}},
                              UserMessage("and then")}));
  const Asked fresh = Ask("ann", WireJson::array({UserMessage("another conversation")}));
  ASSERT_TRUE(run_->Erase({.tenant = "ann"}).ok());
  forgotten_.clear();
  EXPECT_TRUE(Answer(open, "late").ok());
  run_->Abandoned(LiveWorld::Turn(fresh, {1, 2}, nullptr, {}, 0), TurnLoss::kClientLeft,
                  Closed("left"));
  EXPECT_THAT(forgotten_, ElementsAre("ann", "ann")) << "what their sequences left in the cache";
  EXPECT_TRUE(TenantsLeft().empty());
}

TEST_F(EraseTest, TheSearchFindsWhatIsLeft) {
  Talk("ann", "a sentence that somebody copied elsewhere");
  {
    std::ofstream copy(dir_ / "r/notes.txt");
    copy << "she wrote: a sentence that somebody copied elsewhere!";
  }
  const auto report = run_->Erase({.session = 1});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(report->found, ElementsAre(dir_ / "r/notes.txt"));
}

TEST_F(EraseTest, OtherPlacesAreErasedAndTheirFailuresReported) {
  Talk("ann", "what ann said to the model in confidence");
  run_->Add({"cases", [](const EraseNames& names) -> Result<uint64_t> {
               return names.tenants == std::vector<std::string>{"ann"} ? 2 : 0;
             }});
  run_->Add({"answers of a judge",
             [](const EraseNames&) -> Result<uint64_t> { return Unavailable("locked"); }});
  const auto report = run_->Erase({.tenant = "ann"});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(report->others, ElementsAre(std::pair<std::string, uint64_t>("cases", 2)));
  EXPECT_THAT(report->failed, ElementsAre("answers of a judge: locked"));
  const auto json = nlohmann::json::parse(EraseJson(*report));
  EXPECT_EQ(json["deleted"]["cases"], 2);
  EXPECT_EQ(json["failed"].size(), 1u);
  EXPECT_TRUE(run_->Erase({.tenant = "ann"}).ok()) << "what failed before is tried again";
}

TEST(EraseBus, DeadLettersOfSessionsGoAndOthersStay) {
  RealClock clock;
  MemoryBus bus(clock);
  ASSERT_TRUE(bus.Open(kLiveEventsTopic, {}).ok());
  ASSERT_TRUE(bus.Open("other", {}).ok());
  const auto die = [&](std::string_view topic, const std::string& body) {
    ASSERT_TRUE(bus.Publish(topic, body).ok());
    const auto leases = bus.Receive(topic, 1);
    ASSERT_TRUE(leases.ok() && leases->size() == 1);
    ASSERT_TRUE(bus.Reject((*leases)[0], "refused").ok());
  };
  for (const uint64_t session : {7, 8, 7}) {
    v1::LiveEvent event;
    event.mutable_sample()->mutable_trajectory()->mutable_id()->set_group(session);
    die(kLiveEventsTopic, event.SerializeAsString());
    die("other", event.SerializeAsString());
  }
  die(kLiveEventsTopic, "\xff\xff no message");
  const auto erased = EraseDeadLetters(bus, {7});
  ASSERT_TRUE(erased.ok()) << erased.status().message();
  EXPECT_EQ(*erased, 3u) << "two samples, and what nobody can read";
  EXPECT_EQ(bus.Depth(kDeadTopic)->ready, 4u);
  EXPECT_EQ(*EraseDeadLetters(bus, {7}), 0u);
}

TEST_F(EraseTest, WithoutConsentNothingOfAnExchangeIsOnDisk) {
  Talk("none", "a marker that must not be on disk 4711", Consent::kNone);
  Talk("some", "a marker that may be on disk 4712", Consent::kStore);
  EXPECT_THAT(TenantsLeft(), ElementsAre("some"));
  for (const auto& file : std::filesystem::recursive_directory_iterator(dir_.path())) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(bytes.find("must not be on disk"), std::string::npos) << file.path();
  }
}

TEST_F(EraseTest, OnlyTheOperatorMayDelete) {
  Talk("ann", "what ann said to the model in confidence");
  auto made = LiveOperator::Make(run_->path());
  ASSERT_TRUE(made.ok()) << made.status().message();
  made->Add("/live/delete", DeleteDeed(*run_));
  HttpRequest request;
  request.method = "POST";
  request.path = "/live/delete";
  request.body = R"({"tenant": "ann"})";
  EXPECT_EQ(made->Answer(request).status, 401);
  request.headers["authorization"] = "Bearer " + std::string(32, '0');
  EXPECT_EQ(made->Answer(request).status, 401);
  const auto secret = KeepSecret(dir_ / "r/secret");
  request.headers["authorization"] = "Bearer " + OperatorToken(*secret);
  request.body = R"({"tenant": ""})";
  EXPECT_EQ(made->Answer(request).status, 400);
  request.body = R"({"session": 99})";
  EXPECT_EQ(made->Answer(request).status, 404);
  request.body = R"({"tenant": "ann"})";
  const HttpResponse done = made->Answer(request);
  EXPECT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(nlohmann::json::parse(done.body)["deleted"]["turns"], 1);
}

}  // namespace
}  // namespace tidemill
