#include "reward/staying_command.h"
#include "core/mutex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "reward/asked_command.h"
#include "reward/scorer_check.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

// Answers, and what a Python program asked with them does to each question.
class StayingTest : public testing::Test {
 protected:
  void Start(const std::string& python, std::chrono::milliseconds time = std::chrono::seconds(30),
             size_t open_max = 4) {
    const std::string script = folder_ / "scorer.py";
    std::ofstream(script) << "import json, os, sys, time\n"
                          << "open('" << (folder_ / "starts") << "', 'a').write('x')\n"
                          << python;
    command_.emplace(
        StayingCommand::Options{
            {"python3", script}, {.time = time, .output_bytes = 4096}, open_max},
        [this](StayingAnswer said) { Keep(std::move(said)); });
  }
  // As the scorers' port reads it.
  void Keep(StayingAnswer said) {
    ScorerDone done;
    done.tag = said.tag;
    done.status = said.status;
    if (said.status.ok()) {
      Result<CommandAnswer> answer = ParseAnswer(said.line);
      if (answer.ok()) done.answer = std::move(*answer);
      done.status = answer.status();
    }
    MutexLock lock(mutex_);
    done_[done.tag] = std::move(done);
  }
  std::map<uint64_t, ScorerDone> Await(size_t count) {
    const auto all = [&] {
      MutexLock lock(mutex_);
      return done_.size() >= count;
    };
    EXPECT_TRUE(Eventually(all));
    MutexLock lock(mutex_);
    return done_;
  }
  size_t starts() const { return TextOf(folder_ / "starts").size(); }

  TemporaryDirectory folder_;
  Mutex mutex_;
  std::map<uint64_t, ScorerDone> done_ TM_GUARDED_BY(mutex_);
  std::optional<StayingCommand> command_;  // first to go
};

constexpr char kEcho[] =
    "for line in sys.stdin:\n"
    "  q = json.loads(line)\n"
    "  print(json.dumps({'id': q['id'], 'score': q['n'] / 100}), flush=True)\n";

std::string Question(int n) {
  return "{\"n\": " + std::to_string(n) + "}\n";
}

TEST_F(StayingTest, OneProcessAnswersEveryQuestion) {
  Start(kEcho);
  for (int i = 1; i <= 100; ++i) command_->Ask(Question(i), static_cast<uint64_t>(i));
  for (const auto& [tag, done] : Await(100)) {
    ASSERT_TRUE(done.status.ok()) << done.status.ToString();
    EXPECT_DOUBLE_EQ(done.answer.score, static_cast<double>(tag) / 100);
  }
  EXPECT_EQ(starts(), 1u);
}

TEST_F(StayingTest, SeveralQuestionsAreOpenAtOnceAndAnsweredInAnyOrder) {
  Start(
      "held = []\n"
      "for line in sys.stdin:\n"
      "  held.append(json.loads(line))\n"
      "  if len(held) == 4:\n"
      "    print('a line of debugging')\n"
      "    for q in reversed(held):\n"
      "      print(json.dumps({'id': q['id'], 'score': q['n'] / 100}), flush=True)\n"
      "    held = []\n");
  for (int i = 1; i <= 8; ++i) command_->Ask(Question(i), static_cast<uint64_t>(i));
  for (const auto& [tag, done] : Await(8))
    EXPECT_DOUBLE_EQ(done.answer.score, static_cast<double>(tag) / 100);
}

TEST_F(StayingTest, AQuestionThatEndsTheProgramFailsAloneAndTheProgramIsStartedAgain) {
  Start(
      "for line in sys.stdin:\n"
      "  q = json.loads(line)\n"
      "  if q['n'] == 3: sys.exit('no such model')\n"
      "  print(json.dumps({'id': q['id'], 'score': q['n'] / 100}), flush=True)\n");
  for (int i = 1; i <= 6; ++i) command_->Ask(Question(i), static_cast<uint64_t>(i));
  auto done = Await(6);
  for (const auto& [tag, one] : done) EXPECT_EQ(one.status.ok(), tag != 3) << tag;
  EXPECT_EQ(done[3].status.code(), Code::kUnavailable);
  EXPECT_THAT(done[3].status.message(), HasSubstr("exit status 1: no such model"));
  command_->Ask(Question(7), 7);
  EXPECT_TRUE(Await(7)[7].status.ok());
  EXPECT_GE(starts(), 3u);
}

TEST_F(StayingTest, AProgramThatHangsIsKilledAndStartedAgain) {
  Start(
      "for line in sys.stdin:\n"
      "  q = json.loads(line)\n"
      "  if q['n'] == 1: time.sleep(600)\n"
      "  print(json.dumps({'id': q['id'], 'score': 0.5}), flush=True)\n",
      std::chrono::milliseconds(2000), 1);
  command_->Ask(Question(1), 1);
  command_->Ask(Question(2), 2);
  auto done = Await(2);
  EXPECT_THAT(done[1].status.message(), HasSubstr("no answer within 2000 ms"));
  EXPECT_TRUE(done[2].status.ok()) << done[2].status.ToString();
}

TEST_F(StayingTest, WrongAnswersAndProgramsAreNamed) {
  Start(
      "for line in sys.stdin:\n"
      "  q = json.loads(line)\n"
      "  if q['n'] == 2: print('x' * 5000)\n"
      "  print(json.dumps({'id': q['id'], 'score': 'high'}), flush=True)\n");
  command_->Ask(Question(1), 1);
  EXPECT_THAT(Await(1)[1].status.message(), HasSubstr("\"score\" must be a number"));
  command_->Ask(Question(2), 2);
  Await(2);
  command_.reset();
  {
    MutexLock lock(mutex_);
    done_.clear();
  }
  command_.emplace(StayingCommand::Options{{"no-such-judge"}, {}, 1},
                   [this](StayingAnswer said) { Keep(std::move(said)); });
  command_->Ask(Question(1), 3);
  EXPECT_THAT(Await(1)[3].status.message(), HasSubstr("\"no-such-judge\" could not be started"));
}

TEST_F(StayingTest, TheExampleScorerAnswersWhatARunAsks) {
  command_.emplace(StayingCommand::Options{{"python3", SourceDir() + "/examples/scorer.py"}, {}, 2},
                   [this](StayingAnswer said) { Keep(std::move(said)); });
  v1::ScoreRequest request;
  request.set_submission("return a;");
  ScoreEvidence evidence;
  v1::ToolResult& grade = evidence.tools["grade"];
  grade.set_tests_passed(3), grade.set_tests_total(4);
  command_->Ask(MakeQuestion({.kind = Need::Kind::kCommand, .name = "command"}, request, evidence),
                1);
  const ScorerDone done = Await(1)[1];
  ASSERT_TRUE(done.status.ok()) << done.status.ToString();
  EXPECT_DOUBLE_EQ(done.answer.score, 0.9 * 0.75 + 0.1);
}

TEST(AskedCommand, GivesTheAnswersInTheOrderOfTheQuestionsAndTriesAFailureAgain) {
  const TemporaryDirectory folder;
  const std::string script = folder / "program.py";
  std::ofstream(script) << "import json, sys\n"
                           "failures = 2\n"
                           "for line in sys.stdin:\n"
                           "  q = json.loads(line)\n"
                           "  said = {'id': q['id'], 'twice': 2 * q['n']}\n"
                           "  if q['n'] == 3 and failures > 0:\n"
                           "    failures -= 1\n"
                           "    said = {'id': q['id'], 'error': 'ValueError: too odd'}\n"
                           "  if q['n'] == 9: said = {'id': q['id'], 'error': 'nine'}\n"
                           "  print(json.dumps(said), flush=True)\n";
  AskedCommand command({{"python3", script}, {}, 4}, /*retries=*/2);
  const auto answers = command.Ask({"{\"n\": 1}", "{\"n\": 3}", "{\"n\": 2}"});
  ASSERT_TRUE(answers.ok()) << answers.status().ToString();
  ASSERT_EQ(answers->size(), 3u);
  EXPECT_THAT((*answers)[0], HasSubstr("\"twice\": 2"));
  EXPECT_THAT((*answers)[1], HasSubstr("\"twice\": 6"));
  EXPECT_THAT((*answers)[2], HasSubstr("\"twice\": 4"));
  const auto failed = command.Ask({"{\"n\": 1}", "{\"n\": 9}"});
  EXPECT_EQ(failed.status().code(), Code::kUnavailable);
  EXPECT_THAT(failed.status().message(), HasSubstr("nine"));
}

// Answers as it is told, at once.
class AskedPort final : public ScorerPort {
 public:
  bool Knows(const std::string&) const override { return true; }
  void Submit(const std::string&, std::string question, uint64_t tag) override {
    questions.push_back(std::move(question));
    ScorerDone done;
    done.tag = tag;
    done.answer.has_score = true;
    if (failures-- > 0) done.status = Unavailable("the judge is asleep");
    events_.Post(std::move(done));
  }
  Mailbox<ScorerDone>& events() override { return events_; }

  std::vector<std::string> questions;
  int failures = 0;

 private:
  Mailbox<ScorerDone> events_{16};
};

TEST(CheckScorers, TriesEachCommandOnARealTaskWithNothingSubmitted) {
  RewardConfig reward;
  reward.command = {"true"};
  std::vector<WeightedScorer> scorers;
  scorers.push_back({NewScorer("command", reward).value(), 1});
  v1::Task task;
  task.set_id("sum");
  task.mutable_grading()->add_cases();
  AskedPort port;
  const ScorerCheckOptions options{.retries = 2, .retry_delay = std::chrono::milliseconds(0)};
  EXPECT_TRUE(CheckScorers(scorers, port, task, options).ok());
  ASSERT_EQ(port.questions.size(), 1u);
  EXPECT_THAT(port.questions[0], HasSubstr("\"task\":\"sum\""));
  EXPECT_THAT(port.questions[0], HasSubstr("\"tests_total\":1"));
  port.failures = 2;
  EXPECT_TRUE(CheckScorers(scorers, port, task, options).ok()) << "as often as in the run";
  port.failures = 3;
  const Status failed = CheckScorers(scorers, port, task, options);
  EXPECT_EQ(failed.code(), Code::kInvalid);
  EXPECT_THAT(failed.message(), HasSubstr("the scorer command failed when it was tried before"));
  EXPECT_THAT(failed.message(), HasSubstr("the judge is asleep"));
}

}  // namespace
}  // namespace tidemill
