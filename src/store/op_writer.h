// Turns each StoreOp into rows, inside a transaction that RunDb opened.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/clock.h"
#include "store/body_codec.h"
#include "store/sqlite.h"
#include "store/store_port.h"

namespace tidemill {

// Belongs to one thread at a time.
class OpWriter {
 public:
  OpWriter(Database& db, const Clock& clock);
  ~OpWriter();

  // Once, before the first Write.
  Status Prepare();
  // All of the op or nothing of it. `version` is set by ReserveVersion, PutCase and
  // PutSkillLesson. kUnavailable and kCorrupt are the database's; the transaction must then be rolled back.
  Status Write(const StoreOp& op, uint64_t& version);

 private:
  struct Statements;

  Status Put(const PutTrajectory& op);
  Status Put(const PutVerdict& op);
  Status Put(const PutFate& op);
  Status Put(const PutStep& op);
  Status Put(const PutGroup& op);
  Status PutEvaluation(const PutGroup& op);
  Status Put(const PutGroupReport& op);
  Status Put(const PutCheckpoint& op);
  Status Put(const PutSession& op);
  Status Put(const PutSessionTurn& op);
  Status Put(const PutSignal& op);
  Status Put(const PutRelease& op);
  Status Put(const EraseCases& op);
  // Adds to the task's name where the turn of a session was a case before. kExists: nothing is new.
  // kNotFound: the session was deleted.
  Status NameRevision(const v1::CaseRecord& record, std::string& task);
  // The number of the case.
  Result<uint64_t> Learn(const PutCase& op);
  // The number of the lesson.
  Result<uint64_t> Teach(const PutSkillLesson& op);
  Result<uint64_t> Reserve(const ReserveVersion& op);
  // The row of exactly this attempt. kNotFound: it is not stored, or another attempt is.
  Result<int64_t> Find(const v1::TrajectoryId& id);
  Status KeepVersion(uint64_t version, uint64_t step, const PolicyStep& of);

  Database& db_;
  const Clock& clock_;
  BodyCodec codec_;
  std::unique_ptr<Statements> statements_;
};

}  // namespace tidemill
