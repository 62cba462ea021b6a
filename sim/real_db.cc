#include "sim/real_db.h"

#include "core/status.h"

namespace tidemill::sim {

RealDb::RealDb(const Clock& clock) {
  auto db = RunDb::Open(":memory:", clock);
  TM_CHECK(db.ok(), db.status().message());
  db_ = std::move(*db);
}

Result<ResumeState> RealDb::Resume(uint64_t step, uint32_t max_uses) {
  std::vector<const StoreOp*> ops;
  for (const StoreOp& op : kept_) ops.push_back(&op);
  // An op that repeats another is refused alone, as it was by the simulated store.
  TM_RETURN_IF_ERROR(db_->Apply(ops).status());
  kept_.clear();
  TM_RETURN_IF_ERROR(db_->ResumeFrom(step));
  return db_->LoadForResume(max_uses);
}

}  // namespace tidemill::sim
