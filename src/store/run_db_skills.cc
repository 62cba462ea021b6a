// The repository of skills as a new process finds it.
#include "store/body_codec.h"
#include "store/run_db.h"
#include "store/skill_reader.h"
#include "store/sqlite.h"

namespace tidemill {

Result<SkillsState> RunDb::LoadSkills() {
  SkillsState state;
  BodyCodec codec;
  TM_ASSIGN_OR_RETURN(state.lessons, ReadSkillLessons(*db_));
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT b.body, v.body FROM trajectories t JOIN bodies b USING (seq) JOIN verdicts v USING "
      "(seq) WHERE t.purpose = 1 AND t.scored = 1 AND NOT EXISTS (SELECT 1 FROM skill_lessons l "
      "WHERE l.grp = t.grp) ORDER BY t.seq",
      [&](Statement& row) -> Status {
        CasesState::Scored one;
        if (!codec.Unpack(row.Bytes(0), one.trajectory).ok()) return Ok();
        if (!codec.Unpack(row.Bytes(1), one.verdict).ok()) return Ok();
        state.untaught.push_back(std::move(one));
        return Ok();
      }));
  return state;
}

}  // namespace tidemill
