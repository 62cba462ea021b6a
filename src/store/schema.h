// The tables of run.db and how a database written by an older program becomes today's.
// docs/store.md describes every table.
#pragma once

#include <cstdint>
#include <span>

#include "core/status.h"
#include "store/sqlite.h"

namespace tidemill {

// SQLite's application_id of run.db ("Tide"), so that a foreign database is not taken for one.
inline constexpr int64_t kRunDbApplicationId = 0x54696465;

// Migration n (from 0) brings the schema from version n to n + 1. Never change one that was
// released: add one.
std::span<const char* const> RunDbMigrations();

// Brings the database to the newest version, each migration in a transaction of its own. kInvalid:
// it is of a newer program, or not ours.
Status Migrate(Database& db, std::span<const char* const> migrations);

// For readers, who change nothing: kInvalid unless the database has the version `oldest` or a later
// one that is known.
Status CheckSchema(Database& db, std::span<const char* const> migrations, int64_t oldest);

// The first version with what is read of episodes, with the gateway's sessions, with memory,
// with evaluations apart, with skills.
inline constexpr int64_t kEpisodesSchema = 1;
inline constexpr int64_t kSessionsSchema = 3;
inline constexpr int64_t kCasesSchema = 4;
inline constexpr int64_t kEvaluationsSchema = 5;
inline constexpr int64_t kSkillsSchema = 9;

// For readers of a run that an older program wrote: makes what the migration would, for this
// connection alone. Changes nothing in the file.
Status ReadOlderEvaluations(Database& db);

}  // namespace tidemill
