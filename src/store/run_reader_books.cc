// The books of a run: every group issued, and what became of it; what was made of its tokens.
#include "store/body_codec.h"
#include "store/run_reader.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

// One row a group: what was said of it, and what of it is stored. An evaluation that was under way
// when the run was resumed begins anew with new groups; nobody waits for the old ones, and those
// that are closed count once. The same name at a later step is another evaluation.
constexpr const char* kGroups =
    "SELECT g.grp, g.purpose, g.members, g.accepted, g.dropped, g.report, "
    "coalesce(t.stored, 0), coalesce(t.uses, 0), "
    "g.purpose = 2 AND g.issued_ms < (SELECT coalesce(max(at_ms), 0) FROM resumes), "
    "EXISTS (SELECT 1 FROM evaluation_groups JOIN evaluations e USING (evaluation), evaluations "
    "again WHERE grp = g.grp AND again.eval_name = e.eval_name AND again.step = e.step AND "
    "again.evaluation > e.evaluation) "
    "FROM groups g LEFT JOIN (SELECT grp, count(*) AS stored, max(uses) AS uses FROM trajectories "
    "GROUP BY grp) t ON t.grp = g.grp ORDER BY g.grp";

class Bookkeeper {
 public:
  explicit Bookkeeper(std::string path) : path_(std::move(path)) {}

  Status Add(const Statement& row) {
    const uint64_t group = row.Uint(0), members = row.Uint(2), accepted = row.Uint(3);
    ++rows_;
    books_.issued = group;
    if (accepted + row.Uint(4) < members) {
      if (row.Int(8) != 0) {
        ++books_.abandoned;
      } else {
        books_.open.push_back({group, static_cast<uint32_t>(members), {}});
      }
      return Ok();
    }
    if (accepted > 0) {
      books_.episodes_missing += members - std::min(members, row.Uint(6));
    }
    if (row.Int(1) == v1::PURPOSE_EVAL) {
      ++(row.Int(9) != 0 ? books_.abandoned : books_.evaluated);
    } else if (row.Uint(7) > 0) {
      ++books_.trained;
    } else if (accepted > 0) {
      ++books_.ready;
    } else {
      v1::GroupReport report;
      TM_RETURN_IF_ERROR(codec_.Unpack(row.Bytes(5), report)
                             .WithContext(path_ + ": group " + std::to_string(group)));
      ++books_.dropped[report.reason().empty() ? "without a reason" : report.reason()];
    }
    return Ok();
  }
  GroupBooks Close() {
    books_.missing = books_.issued - rows_;
    return std::move(books_);
  }

 private:
  const std::string path_;
  BodyCodec codec_;
  GroupBooks books_;
  uint64_t rows_ = 0;
};

constexpr const char* kTokens =
    "SELECT coalesce(sum(tokens), 0), "
    "coalesce(sum(CASE WHEN purpose = 1 AND uses > 0 THEN tokens END), 0) "
    "FROM trajectories WHERE purpose IN (1, 2)";
// Enough to know why.
constexpr const char* kTokenless =
    "SELECT b.body FROM trajectories JOIN bodies b USING (seq) "
    "WHERE tokens = 0 AND purpose IN (1, 2) ORDER BY seq DESC LIMIT 64";

}  // namespace

Result<TokenUse> RunReader::Tokens() {
  MutexLock lock(mutex_);
  TokenUse use;
  TM_RETURN_IF_ERROR(ForEachRow(*db_, kTokens, [&](const Statement& row) {
    use.drawn = row.Uint(0);
    use.used = row.Uint(1);
    return Ok();
  }));
  BodyCodec codec;
  TM_RETURN_IF_ERROR(ForEachRow(*db_, kTokenless, [&](const Statement& row) {
    v1::Trajectory trajectory;
    // One that is damaged says nothing of the others.
    if (!codec.Unpack(row.Bytes(0), trajectory).ok()) return Ok();
    const v1::AgentLog& log = trajectory.log();
    if (log.untrained().empty()) return Ok();
    ++use.untrained[log.untrained()];
    use.answers += log.answers();
    return Ok();
  }));
  return use;
}

Result<GroupBooks> RunReader::Books() {
  MutexLock lock(mutex_);
  Bookkeeper keeper(db_->path());
  TM_RETURN_IF_ERROR(
      ForEachRow(*db_, kGroups, [&](const Statement& row) { return keeper.Add(row); }));
  GroupBooks books = keeper.Close();
  for (GroupBooks::Open& open : books.open) {
    TM_RETURN_IF_ERROR(ForEachRow(
        *db_, "SELECT member FROM trajectories WHERE grp = ?1",
        [&](const Statement& row) {
          open.stored.insert(static_cast<uint32_t>(row.Uint(0)));
          return Ok();
        },
        open.group));
  }
  return books;
}

}  // namespace tidemill
