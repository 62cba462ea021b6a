// Numbers that several parts give to one receiver: each part takes its own from a range with a
// name, so that the receiver can tell them apart. New numbers of these kinds come from here alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

struct NumberRange {
  std::string_view name;
  uint64_t first = 1;
  uint64_t last = 0;

  constexpr bool Has(uint64_t number) const { return first <= number && number <= last; }
};

// Sequences of the engine (SequenceId). Groups that share a prompt are in the ranges as well: those
// of rollout are numbers of groups, a gateway's the first sequence of theirs.
inline constexpr NumberRange kRolloutSequences{"rollout's sequences", 1, (uint64_t{1} << 62) - 1};
inline constexpr NumberRange kGatewaySequences{"the gateway's sequences", uint64_t{1} << 62,
                                               UINT64_MAX};

// Sessions, as the engine knows them: those of clients are in the database.
inline constexpr NumberRange kClientSessions{"sessions of clients", 1, (uint64_t{1} << 40) - 1};
inline constexpr NumberRange kEpisodeSessions{"sessions of episodes", uint64_t{1} << 40,
                                              (uint64_t{1} << 62) - 1};

// Requests that a recorder has prepared (TurnPrompt::ticket).
inline constexpr NumberRange kClientTickets{"tickets of clients", 1, (uint64_t{1} << 62) - 1};
inline constexpr NumberRange kEpisodeTickets{"tickets of episodes", uint64_t{1} << 62, UINT64_MAX};

// Gives out the numbers of a range, each once. Belongs to one owner; not thread-safe.
class NumberSource {
 public:
  explicit NumberSource(const NumberRange& range) : NumberSource(range, range.first) {}
  // Goes on with `next`, if that is in the range.
  NumberSource(const NumberRange& range, uint64_t next)
      : range_(range), next_(std::max(next, range.first)) {}

  // The number was given out by an earlier process.
  void Taken(uint64_t number) { next_ = std::max(next_, number + 1); }
  uint64_t Take() {
    TM_CHECK(range_.Has(next_), std::string(range_.name) + " are used up");
    return next_++;
  }

 private:
  NumberRange range_;
  uint64_t next_;
};

}  // namespace tidemill
