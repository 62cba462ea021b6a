// How columns become an EpisodeRow. For the run_reader_*.cc files only.
#pragma once

#include "store/run_reader.h"
#include "store/sqlite.h"

namespace tidemill {

inline constexpr const char* kEpisodeColumns =
    "seq, task, grp, member, attempt, purpose, eval_name, end, stale_cause, worker, started_ms, "
    "finished_ms, prompt_tokens, tokens, turns, tool_calls, min_version, max_version, fate, "
    "fate_reason, uses, scored, reward, solved, tests_passed, tests_total, compiled";

EpisodeRow ReadEpisodeRow(const Statement& row);

}  // namespace tidemill
