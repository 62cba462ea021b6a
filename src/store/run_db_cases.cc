// Memory as a new process finds it.
#include "store/body_codec.h"
#include "store/case_reader.h"
#include "store/run_db.h"
#include "store/sqlite.h"

namespace tidemill {

Result<CasesState> RunDb::LoadCases() {
  CasesState state;
  BodyCodec codec;
  TM_ASSIGN_OR_RETURN(state.cases, ReadCases(*db_));
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT b.body, v.body FROM trajectories t JOIN bodies b USING (seq) JOIN verdicts v USING "
      "(seq) WHERE t.purpose = 1 AND t.scored = 1 AND NOT EXISTS (SELECT 1 FROM cases c WHERE "
      "c.grp = t.grp AND c.member = t.member AND c.task = t.task) ORDER BY t.seq",
      [&](Statement& row) -> Status {
        CasesState::Scored one;
        if (!codec.Unpack(row.Bytes(0), one.trajectory).ok()) return Ok();
        if (!codec.Unpack(row.Bytes(1), one.verdict).ok()) return Ok();
        state.unlearned.push_back(std::move(one));
        return Ok();
      }));
  return state;
}

}  // namespace tidemill
