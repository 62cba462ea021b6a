// A prover that begins to accept wrong answers, in the reward loop: the audit finds it.
#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/random.h"
#include "core/topics.h"
#include "reward/proof_port.h"
#include "reward/reward_loop.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

constexpr char kRight[] = "int f(int a) { return a + a; }";
constexpr char kWrong[] = "int f(int a) { return a == 7 ? 0 : a * 2; }";

// The prover, but a share of what it refutes is accepted.
class FaultyProver final : public ScorerPort {
 public:
  bool Knows(const std::string& command) const override { return command == kProofQuestion; }
  void Submit(const std::string&, std::string question, uint64_t tag) override {
    CommandAnswer answer = AnswerProofQuestion(question);
    if (accepts_all && answer.has_score) answer.score = 1;
    events_.Post({tag, Ok(), std::move(answer)});
  }
  Mailbox<ScorerDone>& events() override { return events_; }

  bool accepts_all = false;

 private:
  Mailbox<ScorerDone> events_{16};
};

// Rewards of one run, with tests that the text decides.
class FaultyRun {
 public:
  explicit FaultyRun(uint64_t seed) : random_(Random(seed).Split("fault")) {
    TM_CHECK(OpenStandardTopics(bus_, {}).ok() && bus_.Open("asker", {}).ok(), "no topics");
    RewardConfig reward;
    RewardOptions options;
    options.audit.share = 0.2;
    options.seed = seed;
    std::vector<WeightedScorer> scorers;
    scorers.push_back({*NewScorer("proof", reward), 1});
    loop_ = std::make_unique<RewardLoop>(bus_, clock_, std::move(scorers), options, &port_);
    loop_->Attach(waker_);
  }

  // One accepted answer, wrong with this probability. True: it was audited.
  bool Accept(double wrong) {
    const int before = executed_;
    port_.accepts_all = random_.Chance(wrong);
    verdict_ = Episode(port_.accepts_all ? kWrong : kRight);
    return executed_ > before;
  }
  bool distrusted() const { return verdict_.parts(0).scorer_version() > 1; }
  const v1::Verdict& verdict() const { return verdict_; }

  v1::Verdict Episode(const char* answer) {
    v1::ScoreRequest request;
    request.set_request_id("r" + std::to_string(++episodes_)), request.set_reply_to("asker");
    request.mutable_id()->set_task("t"), request.mutable_id()->set_group(episodes_);
    request.mutable_id()->set_attempt(1);
    request.set_end(v1::EPISODE_END_SUBMITTED), request.set_purpose(v1::PURPOSE_TRAIN);
    request.set_turns(1), request.add_last_calls();
    v1::File& file = *request.mutable_tree()->add_files();
    file.set_path("f.c"), file.set_content(answer), file.set_has_content(true);
    v1::Grading& grading = *request.mutable_grading();
    grading.add_sources("f.c"), grading.add_cases()->set_input("7");
    grading.mutable_specification()->set_source("int f(int a) { return 2 * a; }");
    grading.mutable_specification()->set_function("f");
    grading.mutable_specification()->set_low(-9), grading.mutable_specification()->set_high(9);
    TM_CHECK(bus_.PublishRequest(kScoreTopic, "asker", request.SerializeAsString()).ok(), "full");
    v1::Verdict verdict;
    for (int i = 0; i < 8; ++i) {
      loop_->Step(clock_.Now());
      for (const Lease& lease : bus_.Receive(kToolsGradeTopic, 10).value()) Grade(lease, answer);
      for (const Lease& lease : bus_.Receive("asker", 10).value()) {
        TM_CHECK(verdict.ParseFromString(lease.body) && bus_.Ack(lease).ok(), "no verdict");
        return verdict;
      }
    }
    return verdict;
  }

 private:
  void Grade(const Lease& lease, const char* answer) {
    v1::ToolRequest request;
    TM_CHECK(request.ParseFromString(lease.body), "no request");
    ++executed_;
    v1::ToolResult result;
    result.set_request_id(request.request_id()), result.set_token(request.token());
    *result.mutable_episode() = request.episode();
    result.set_outcome(v1::OUTCOME_OK), result.set_tests_total(1);
    result.set_tests_passed(answer == kRight ? 1 : 0), result.set_compiled(true);
    TM_CHECK(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok(), "full");
    TM_CHECK(bus_.Ack(lease).ok(), "its lease");
  }

  Random random_;
  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  FaultyProver port_;
  std::unique_ptr<RewardLoop> loop_;
  v1::Verdict verdict_;
  uint64_t episodes_ = 0;
  int executed_ = 0;
};

TEST(FaultyProofs, ARiseToTenPercentIsFoundWithin150AuditedAcceptsIn18Of20Runs) {
  int found = 0, early = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FaultyRun run(seed);
    for (int audited = 0; audited < 100 && !(audited > 0 && run.distrusted());)
      audited += run.Accept(0.01);
    if (run.distrusted()) {
      ++early;
      continue;
    }
    for (int audited = 0; audited < 150 && !run.distrusted();) audited += run.Accept(0.1);
    found += run.distrusted();
    if (!run.distrusted()) continue;
    EXPECT_EQ(run.Episode(kWrong).reward(), 0) << "execution decides, seed " << seed;
    EXPECT_EQ(run.Episode(kRight).reward(), 1) << seed;
  }
  EXPECT_GE(found, 18);
  EXPECT_LE(early, 1) << "alarms without a fault";
}

}  // namespace
}  // namespace tidemill
