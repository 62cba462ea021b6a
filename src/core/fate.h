// What becomes of an episode, and which parts of ours can fail one: a row each. Code decides on the
// enums; the database, the API and people get the names. A new fate or failure is one more row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tidemill {

enum class Fate : uint8_t {
  kStored,
  kReady,
  kUsed,
  kStale,
  kTooOld,
  kZeroVariance,
  kUntrainable,
  kEvicted,
  kDeleted,
};

struct FateRow {
  Fate fate;
  std::string_view name;  // never changed: databases hold it
  bool live = false;      // may still be trained on
  bool reissued = false;  // a group that is dropped for this has its task attempted again
  std::string_view meaning;
};

inline constexpr FateRow kFates[] = {
    {Fate::kStored, "stored", true, false, "nothing was decided yet"},
    {Fate::kReady, "ready", true, false, "its steps were abandoned by a resume"},
    {Fate::kUsed, "used", true, false, "a step used it"},
    {Fate::kStale, "stale", false, true, "a part of ours failed"},
    {Fate::kTooOld, "too_old", false, true, "over the staleness bound when a batch was made"},
    {Fate::kZeroVariance, "zero_variance", false, false, "all rewards of its group are equal"},
    {Fate::kUntrainable, "untrainable", false, false, "its group has no token to train"},
    {Fate::kEvicted, "evicted", false, false, "there was no room for it"},
    {Fate::kDeleted, "deleted", false, false, "somebody had it deleted"},
};

const FateRow& RowOf(Fate fate);
inline std::string FateName(Fate fate) {
  return std::string(RowOf(fate).name);
}
// nullopt: no row has this name.
std::optional<Fate> FateNamed(std::string_view name);
// Whether a trajectory with this fate may still be trained on. A name without a row: never.
bool FateIsLive(std::string_view name);
// For SQL: "'stale'", and "'stored', 'ready', 'used'".
std::string Quoted(Fate fate);
std::string LiveFatesSql();
// For errors: "stored, ready, used, ..".
std::string FateNames();

// What may go wrong with an episode, its tools, judges and environments, by kind. A part of ours
// that fails makes an episode stale in the end, never a reward.
enum class Failure : uint8_t {
  kPrompt,
  kEngine,
  kTool,
  kBoxLost,
  kAgent,
  kRefused,
  kUnusable,
  kUnknownTask,
  kUnscorable,
  kNoVerdict,
  kTeacher,
  kCapacity,
  kConnection,
  kTimeout,
  kEnvironment,
  kMasked,
  kVerifier,
  kBadAction,
};

// What a failure becomes.
enum class FailureDeed : uint8_t {
  kStale,   // at once
  kRetry,   // the attempt begins again, so many times; then stale
  kWait,    // it waits for room, and counts as no attempt
  kResult,  // it is the agent's own, and scored
};

struct FailureRow {
  Failure failure;
  std::string_view words;  // before the detail; never changed: databases hold it
  std::string_view key;    // in the names of figures
  FailureDeed deed = FailureDeed::kStale;
};

inline constexpr FailureRow kFailures[] = {
    {Failure::kPrompt, "prompt", "prompt"},
    {Failure::kEngine, "engine", "engine"},
    {Failure::kTool, "tool unavailable", "tool", FailureDeed::kRetry},
    {Failure::kBoxLost, "the episode's box was lost", "box_lost"},
    {Failure::kAgent, "agent", "agent", FailureDeed::kRetry},
    {Failure::kRefused, "refused", "refused"},
    {Failure::kUnusable, "put aside", "unusable"},
    {Failure::kUnknownTask, "the task is not in this run's task files", "unknown_task"},
    {Failure::kUnscorable, "unscorable", "unscorable"},
    {Failure::kNoVerdict, "no verdict", "no_verdict"},
    {Failure::kTeacher, "not scored by the teacher", "teacher"},
    {Failure::kCapacity, "no room in the environment", "capacity", FailureDeed::kWait},
    {Failure::kConnection, "environment unreachable", "connection", FailureDeed::kRetry},
    {Failure::kTimeout, "environment too slow", "timeout", FailureDeed::kRetry},
    {Failure::kEnvironment, "environment failed", "environment", FailureDeed::kRetry},
    {Failure::kMasked, "the environment masked it", "masked", FailureDeed::kStale},
    {Failure::kVerifier, "the environment's verifier failed", "verifier", FailureDeed::kRetry},
    {Failure::kBadAction, "bad action", "bad_action", FailureDeed::kResult},
};

inline const FailureRow& RowOf(Failure failure) {
  return kFailures[static_cast<size_t>(failure)];
}

// "engine: the device is lost"; without a detail the words alone.
std::string FailureText(Failure failure, std::string_view detail = {});
// nullopt: no row has these words.
std::optional<Failure> FailureNamed(std::string_view words);

}  // namespace tidemill
