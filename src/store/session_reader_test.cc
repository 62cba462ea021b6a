#include "store/session_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/run_reader.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

v1::Session SampleSession(uint64_t number, const std::string& tenant = "t") {
  v1::Session session;
  session.set_number(number);
  session.set_tenant(tenant);
  session.set_name("n" + std::to_string(number));
  session.set_started_ms(1000 + static_cast<int64_t>(number));
  return session;
}

v1::SessionTurn SampleTurn(uint64_t session, uint32_t turn, uint32_t question) {
  v1::SessionTurn out;
  out.set_session(session);
  out.set_turn(turn);
  out.set_question(question);
  out.set_messages_json("[]");
  for (uint32_t i = 0; i < 5 * turn; ++i) out.mutable_answer()->add_ids(i);
  out.mutable_answer()->set_finished_ms(2000 + turn);
  return out;
}

class SessionStore : public testing::Test {
 protected:
  Status Put(const StoreOp& op) { return db_->ApplyOne(op); }

  TemporaryDirectory dir_;
  std::unique_ptr<RunDb> db_ = OpenDb(dir_ / "run.db");
};

TEST_F(SessionStore, OpenSessionsComeBackWithTheirTurnsInOrder) {
  for (const uint64_t number : {2, 1, 4})
    ASSERT_TRUE(Put(PutSession{SampleSession(number), {}}).ok());
  for (const uint32_t turn : {1, 3, 2})
    ASSERT_TRUE(Put(PutSessionTurn{SampleTurn(1, turn, 1)}).ok());
  v1::Session closed = SampleSession(2);
  closed.set_closed_ms(5);
  ASSERT_TRUE(Put(PutSession{closed, {}}).ok());
  db_ = nullptr;
  db_ = OpenDb(dir_ / "run.db");
  const auto state = db_->LoadSessions(0, 0);
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_EQ(state->next_number, 5u);
  ASSERT_EQ(state->sessions.size(), 2u);
  EXPECT_EQ(state->sessions[0].session.name(), "n1");
  ASSERT_EQ(state->sessions[0].turns.size(), 3u);
  EXPECT_EQ(state->sessions[0].turns[2].SerializeAsString(),
            SampleTurn(1, 3, 1).SerializeAsString());
  EXPECT_TRUE(state->sessions[1].turns.empty());
  EXPECT_EQ(db_->LoadSessions(4, 9)->sessions.size(), 3u) << "closed after that";
  EXPECT_EQ(db_->LoadSessions(5, 9)->sessions.size(), 2u);
}

TEST_F(SessionStore, ATurnIsStoredOnceAndOnlyInASessionThatIs) {
  EXPECT_EQ(Put(PutSessionTurn{SampleTurn(1, 1, 1)}).code(), Code::kNotFound);
  ASSERT_TRUE(Put(PutSession{SampleSession(1), {}}).ok());
  EXPECT_TRUE(Put(PutSessionTurn{SampleTurn(1, 1, 1)}).ok());
  EXPECT_EQ(Put(PutSessionTurn{SampleTurn(1, 1, 1)}).code(), Code::kExists);
  EXPECT_EQ(Put(PutSession{v1::Session(), {}}).code(), Code::kInvalid);
}

TEST_F(SessionStore, ACloseBringsItsTrajectoriesOrNothing) {
  v1::Session session = SampleSession(1);
  ASSERT_TRUE(Put(PutSession{session, {}}).ok());
  session.set_closed_ms(9);
  v1::Trajectory good = SampleTrajectory(SampleId(7, 0)), bad = SampleTrajectory(SampleId(7, 1));
  bad.set_purpose(v1::PURPOSE_UNSPECIFIED);
  EXPECT_EQ(Put(PutSession{session, {good, bad}}).code(), Code::kInvalid);
  EXPECT_EQ(db_->LoadSessions(0, 0)->sessions.size(), 1u) << "still open";
  good.set_purpose(v1::PURPOSE_LIVE);
  EXPECT_TRUE(Put(PutSession{session, {good}}).ok());
  EXPECT_TRUE(Put(PutSession{session, {good}}).ok()) << "a second time changes nothing";
  EXPECT_TRUE(db_->LoadSessions(0, 0)->sessions.empty());
  EXPECT_EQ((*RunReader::Open(dir_ / "run.db"))->Episodes({}, EpisodeSort::kNewest, {})->total, 1u);
}

TEST_F(SessionStore, AReaderListsTheNewestFirst) {
  for (const uint64_t number : {1, 2, 3}) {
    ASSERT_TRUE(Put(PutSession{SampleSession(number, number == 2 ? "u" : "t"), {}}).ok());
  }
  ASSERT_TRUE(Put(PutSessionTurn{SampleTurn(3, 1, 1)}).ok());
  ASSERT_TRUE(Put(PutSessionTurn{SampleTurn(3, 2, 1)}).ok());
  const auto reader = SessionReader::Open(dir_ / "run.db");
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  const auto rows = (*reader)->List({}, 2);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].session.number(), 3u);
  EXPECT_EQ((*rows)[0].turns, 2u);
  EXPECT_EQ((*rows)[0].questions, 1u);
  EXPECT_EQ((*rows)[0].tokens, 15u);
  EXPECT_EQ((*rows)[0].finished_ms, 2002);
  EXPECT_EQ((*reader)->List({.tenant = "u"}, 9)->at(0).session.number(), 2u);
  EXPECT_EQ((*reader)->Read(3)->turns.size(), 2u);
  EXPECT_EQ((*reader)->Read(9).status().code(), Code::kNotFound);
}

TEST_F(SessionStore, ADamagedTurnEndsTheTurnsOfItsSession) {
  ASSERT_TRUE(Put(PutSession{SampleSession(1), {}}).ok());
  for (const uint32_t turn : {1, 2, 3})
    ASSERT_TRUE(Put(PutSessionTurn{SampleTurn(1, turn, 1)}).ok());
  auto raw = Database::Open(dir_ / "run.db", {});
  ASSERT_TRUE((*raw)->Exec("UPDATE session_turns SET body = x'00' WHERE turn = 2").ok());
  const auto state = db_->LoadSessions(0, 0);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->sessions[0].turns.size(), 1u);
  EXPECT_THAT(state->sessions[0].damage, HasSubstr("turn 2"));
}

v1::Signal SampleSignal(uint64_t session, uint32_t turn, double score) {
  v1::Signal signal;
  signal.set_session(session);
  signal.set_turn(turn);
  signal.set_source("person");
  signal.set_score(score);
  signal.set_revision(1);
  return signal;
}

TEST_F(SessionStore, TheNewestSignalOfASourceStaysAndOnlyOnWhatIsThere) {
  ASSERT_TRUE(Put(PutSession{SampleSession(1), {}}).ok());
  EXPECT_EQ(Put(PutSignal{SampleSignal(2, 0, 1)}).code(), Code::kNotFound);
  EXPECT_EQ(Put(PutSignal{SampleSignal(1, 3, 1)}).code(), Code::kNotFound);
  EXPECT_EQ(Put(PutSignal{SampleSignal(1, 0, 2)}).code(), Code::kInvalid);
  EXPECT_TRUE(Put(PutSignal{SampleSignal(1, 0, 1)}).ok());
  EXPECT_TRUE(Put(PutSignal{SampleSignal(1, 0, -1)}).ok());
  auto reader = SessionReader::Open(dir_ / "run.db").value();
  const auto signals = reader->Signals(1).value();
  ASSERT_EQ(signals.size(), 1u);
  EXPECT_EQ(signals[0].score(), -1);
  EXPECT_EQ(reader->List({}, 10)->at(0).signals, 1u);
}

TEST_F(SessionStore, SignalsComeBackWhicheverSessionClosedFirst) {
  for (const uint64_t number : {2, 1}) {  // in the order they closed
    v1::Session session = SampleSession(number);
    session.set_closed_ms(5);
    v1::Trajectory trajectory = SampleTrajectory(SampleId(number, 0));
    trajectory.set_purpose(v1::PURPOSE_LIVE);
    ASSERT_TRUE(Put(PutSession{session, {trajectory}}).ok());
    ASSERT_TRUE(Put(PutSignal{SampleSignal(number, 0, 1)}).ok());
  }
  const auto state = db_->LoadLive(10);
  ASSERT_TRUE(state.ok()) << state.status().message();
  ASSERT_EQ(state->trajectories.size(), 2u);
  EXPECT_TRUE(state->trajectories[0].usable);
  EXPECT_EQ(state->signals.size(), 2u);
}

TEST(SessionSchema, ARunFromBeforeThereWereSessionsIsReadAndMigrated) {
  TemporaryDirectory dir;
  {
    auto old = Database::Open(dir / "run.db", {});
    ASSERT_TRUE(Migrate(**old, RunDbMigrations().first(1)).ok());
  }
  EXPECT_TRUE(RunReader::Open(dir / "run.db").ok());
  EXPECT_THAT(SessionReader::Open(dir / "run.db").status().message(), HasSubstr("older tidemill"));
  const auto db = OpenDb(dir / "run.db");
  EXPECT_TRUE(db->LoadSessions(0, 0)->sessions.empty());
  EXPECT_TRUE(SessionReader::Open(dir / "run.db").ok());
}

}  // namespace
}  // namespace tidemill
