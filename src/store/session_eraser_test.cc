#include "store/session_eraser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "store/run_reader.h"
#include "store/session_reader.h"
#include "store/sqlite.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class Eraser : public testing::Test {
 protected:
  void Put(const StoreOp& op) {
    const Status put = db_->ApplyOne(op);
    ASSERT_TRUE(put.ok()) << put.message();
  }
  static v1::TrajectoryId LiveId(uint64_t session) {
    v1::TrajectoryId id = SampleId(session, 0);
    id.set_task("session-" + std::to_string(session));
    return id;
  }
  // A closed session with one turn, one trajectory, a verdict and a case.
  void PutWhole(uint64_t number, const std::string& tenant) {
    v1::Session session;
    session.set_number(number);
    session.set_tenant(tenant);
    session.set_name("name-of-session-" + std::to_string(number));
    session.set_closed_ms(5);
    Put(PutSession{session, {}});
    v1::SessionTurn turn;
    turn.set_session(number);
    turn.set_turn(1);
    turn.set_question(1);
    turn.set_messages_json(R"([{"role":"user","content":"said )" + tenant + R"("}])");
    for (uint32_t i = 0; i < 50; ++i) turn.add_prompt_ids((i * 7919 + number) % 30000);
    Put(PutSessionTurn{turn});
    v1::Signal signal;
    signal.set_session(number);
    signal.set_source("person");
    signal.set_text("a remark of " + tenant);
    Put(PutSignal{signal});
    v1::Trajectory trajectory = SampleTrajectory(LiveId(number), 40);
    trajectory.set_purpose(v1::PURPOSE_LIVE);
    Put(PutSession{session, {trajectory}});
    Put(PutVerdict{SampleVerdict(LiveId(number), 0.5)});
    v1::CaseRecord learned;
    *learned.mutable_id() = LiveId(number);
    learned.set_prompt("what " + tenant + " asked, as memory keeps it");
    learned.set_tenant(tenant);
    learned.set_session(number);
    Put(PutCase{learned});
  }
  std::string FilesAsBytes() const {
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(dir_.path())) {
      std::ifstream in(file.path(), std::ios::binary);
      std::stringstream bytes;
      bytes << in.rdbuf();
      all += bytes.str();
    }
    return all;
  }
  Result<Erased> Erase(const EraseWhat& what) { return EraseSessions(dir_ / "run.db", what); }

  TemporaryDirectory dir_;
  std::unique_ptr<RunDb> db_ = OpenDb(dir_ / "run.db");  // stays open, as in a run that goes on
};

TEST_F(Eraser, NothingOfATenantIsLeftInTheFilesAndOthersKeepEverything) {
  PutWhole(1, "ann");
  PutWhole(2, "bob");
  PutWhole(3, "ann");
  const auto erased = Erase({.tenant = "ann"});
  ASSERT_TRUE(erased.ok()) << erased.status().message();
  EXPECT_THAT(erased->sessions, testing::ElementsAre(1, 3));
  EXPECT_THAT(erased->rows,
              testing::ElementsAre(testing::Pair("turns", 2), testing::Pair("signals", 2),
                                   testing::Pair("verdicts", 2), testing::Pair("trajectories", 2),
                                   testing::Pair("cases", 2)));
  const std::string all = FilesAsBytes();
  for (const std::string& body : erased->bodies) {
    ASSERT_GT(body.size(), 20u);
    EXPECT_EQ(all.find(body.substr(20, 16)), std::string::npos);
  }
  EXPECT_EQ(all.find("name-of-session-1"), std::string::npos);
  EXPECT_NE(all.find("name-of-session-2"), std::string::npos) << "the search can find";
  EXPECT_EQ(std::filesystem::file_size(dir_ / "run.db-wal"), 0u);
  const auto reader = SessionReader::Open(dir_ / "run.db");
  EXPECT_EQ((*reader)->Read(2)->turns.size(), 1u);
  EXPECT_EQ((*reader)->Read(1)->turns.size(), 0u);
  EXPECT_TRUE((*RunReader::Open(dir_ / "run.db"))->Episode(2, 0).ok());
}

TEST_F(Eraser, WhatComesLaterForADeletedSessionIsRefusedAndItsNumberIsNotGivenAgain) {
  PutWhole(1, "ann");
  ASSERT_TRUE(Erase({.session = 1}).ok());
  v1::Session again;
  again.set_number(1);
  again.set_tenant("ann");
  v1::SessionTurn turn;
  turn.set_session(1);
  turn.set_turn(2);
  v1::Trajectory trajectory = SampleTrajectory(LiveId(1), 40);
  trajectory.set_purpose(v1::PURPOSE_LIVE);
  EXPECT_EQ(db_->ApplyOne(PutSession{again, {trajectory}}).code(), Code::kNotFound);
  EXPECT_EQ(db_->ApplyOne(PutSessionTurn{turn}).code(), Code::kNotFound);
  EXPECT_EQ(db_->ApplyOne(PutVerdict{SampleVerdict(LiveId(1), 1)}).code(), Code::kNotFound);
  EXPECT_TRUE(db_->ApplyOne(PutFate{LiveId(1), Fate::kReady, ""}).ok());
  EXPECT_EQ((*RunReader::Open(dir_ / "run.db"))->Episode(1, 0).status().code(), Code::kNotFound);
  EXPECT_EQ(db_->LoadSessions(0, 100)->next_number, 2u);
  EXPECT_EQ(Erase({.session = 1}).status().code(), Code::kNotFound);
}

TEST_F(Eraser, StepsThatUsedItAndTheCheckpointBeforeAreNamed) {
  PutWhole(1, "ann");
  PutWhole(2, "bob");
  Put(PutStep{1, 11, {LiveId(2)}, "{}"});
  Put(PutCheckpoint{1, 11, "checkpoints/step-1"});
  Put(PutStep{2, 12, {LiveId(1)}, "{}"});
  Put(PutCheckpoint{2, 12, "checkpoints/step-2"});
  Put(PutStep{3, 13, {LiveId(1), LiveId(2)}, "{}"});
  const auto erased = Erase({.session = 1});
  ASSERT_TRUE(erased.ok()) << erased.status().message();
  ASSERT_EQ(erased->uses.size(), 2u);
  EXPECT_EQ(erased->uses[0].step, 2u);
  EXPECT_EQ(erased->uses[1].version, 13u);
  ASSERT_TRUE(erased->before.has_value());
  EXPECT_EQ(erased->before->path, "checkpoints/step-1");
  // A step that was under way can still say what it used; a resume does not bring it back.
  Put(PutStep{4, 14, {LiveId(1)}, "{}"});
  ASSERT_TRUE(db_->ResumeFrom(1).ok());
  EXPECT_EQ((*RunReader::Open(dir_ / "run.db"))->Episode(1, 0).status().code(), Code::kNotFound);
}

TEST_F(Eraser, SessionsThatWereShownItsCasesAreNamed) {
  PutWhole(1, "ann");
  PutWhole(2, "bob");
  const auto cases = db_->LoadCases();
  ASSERT_TRUE(cases.ok());
  ASSERT_EQ(cases->cases.size(), 2u);
  for (const uint64_t number : {3u, 4u}) {
    v1::Session later;
    later.set_number(number);
    later.set_tenant("ann");
    if (number == 3) later.add_shown_cases(cases->cases[0].number);
    Put(PutSession{later, {}});
  }
  const auto erased = Erase({.session = 1});
  ASSERT_TRUE(erased.ok()) << erased.status().message();
  EXPECT_THAT(erased->shown_to, testing::ElementsAre(3));
  EXPECT_TRUE(Erase({.tenant = "ann"})->shown_to.empty()) << "they are gone themselves";
}

// What is said of a turn may change; each word is a case once, and an erased one stays away.
TEST_F(Eraser, ATurnIsACaseAgainWhenItsScoreChanges) {
  PutWhole(1, "ann");
  v1::CaseRecord said = db_->LoadCases()->cases[0].record;
  EXPECT_EQ(db_->ApplyOne(PutCase{said}).code(), Code::kExists);
  said.set_reward(-1);
  Put(PutCase{said});
  EXPECT_EQ(db_->ApplyOne(PutCase{said}).code(), Code::kExists);
  said.set_reward(0.5);
  Put(PutCase{said});
  const auto cases = db_->LoadCases();
  ASSERT_EQ(cases->cases.size(), 3u);
  EXPECT_EQ(cases->cases[1].record.reward(), -1);
  EXPECT_EQ(cases->cases[2].record.reward(), 0.5);
  // The newest by its number: what was said before does not come back.
  Put(EraseCases{.number = cases->cases[2].number});
  EXPECT_TRUE(db_->LoadCases()->cases.empty());
  said.set_reward(1);
  EXPECT_EQ(db_->ApplyOne(PutCase{said}).code(), Code::kExists);
}

TEST_F(Eraser, ACaseThatComesLateForADeletedSessionIsRefused) {
  PutWhole(1, "ann");
  v1::CaseRecord late = db_->LoadCases()->cases[0].record;
  late.mutable_id()->set_member(9);
  ASSERT_TRUE(Erase({.session = 1}).ok());
  EXPECT_EQ(db_->ApplyOne(PutCase{late}).code(), Code::kNotFound);
  late.set_session(77);
  EXPECT_EQ(db_->ApplyOne(PutCase{late}).code(), Code::kNotFound) << "there is no such session";
}

TEST_F(Eraser, ATenantWithoutSessionsIsNamed) {
  PutWhole(1, "ann");
  EXPECT_THAT(Erase({.tenant = "nobody"}).status().message(), HasSubstr("\"nobody\""));
}

TEST_F(Eraser, AReaderDelaysItForAsLongAsWasSaidAndKeepsNobodyFromWriting) {
  PutWhole(1, "ann");
  Database::Options reading;
  reading.mode = Database::Mode::kRead;
  auto other = Database::Open(dir_ / "run.db", reading);
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*other)->Exec("BEGIN").ok());
  ASSERT_TRUE((*other)->Integer("SELECT count(*) FROM sessions").ok());
  auto erased = std::async(std::launch::async, [&] {
    return EraseSessions(dir_ / "run.db", {.tenant = "ann"}, milliseconds(500));
  });
  // The run's own writer goes on: it waits for a lock for five seconds at most.
  for (uint64_t number = 100; erased.wait_for(milliseconds(1)) != std::future_status::ready;
       ++number) {
    v1::Session session;
    session.set_number(number);
    session.set_tenant("bob");
    ASSERT_NO_FATAL_FAILURE(Put(PutSession{session, {}}));
  }
  const auto first = erased.get();
  EXPECT_EQ(first.status().code(), Code::kUnavailable) << first.status().message();
  EXPECT_THAT(first.status().message(), HasSubstr("its log could not be cut"));
  ASSERT_TRUE((*other)->Exec("COMMIT").ok());
  other->reset();
  // Its rows are gone already; this cuts the log.
  EXPECT_EQ(EraseSessions(dir_ / "run.db", {.session = 1}).status().code(), Code::kNotFound);
  EXPECT_EQ(std::filesystem::file_size(dir_ / "run.db-wal"), 0u);
}

}  // namespace
}  // namespace tidemill
