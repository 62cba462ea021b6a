// Who works on an episode, in which order, and what each is shown. Pure decisions.
//
//   TeamPlan -> TeamPlay: After(seat, what it gave) -> the next seat | the end
//
// A seat is a place in the team with a conversation of its own. Several seats may have one role.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/policy_names.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// What draws the turns of a role.
struct RolePolicy {
  PolicyId id = PolicyId::kMain;
  std::string name{};  // as in messages
};

struct TeamSeat {
  std::string role{};                  // Turn.role; empty: the only one
  std::optional<RolePolicy> policy{};  // nothing: the lease's
  std::string prompt{};                // with {task} and {given}; empty: both
  bool shows_files = true;
};

enum class TeamKind : uint8_t { kChain, kReview, kVote };

// Without more, one agent: a chain of one.
struct TeamPlan {
  TeamKind kind = TeamKind::kChain;
  std::vector<TeamSeat> seats = {{}};
  std::vector<size_t> order = {0};  // of a chain; a seat that is there again goes on
  uint32_t rounds = 1;              // of a review
  std::string accept{};             // a comment that begins so ends it; empty: none does

  // How often roles work, at most.
  size_t visits() const;
};

// The next seat, with what it is given; or the end.
struct TeamNext {
  bool over = false;
  std::optional<size_t> chosen{};  // at the end of a vote: whose answer counts
  size_t seat = 0;
  std::string given{};
};

// One episode's way through the team. Not thread-safe; the plan outlives it.
class TeamPlay {
 public:
  explicit TeamPlay(const TeamPlan& plan) : plan_(plan) {}

  // Who works now.
  size_t seat() const { return seat_; }
  // Whether the seat's answer may become the episode's.
  bool Submits(size_t seat) const;
  // Whether it begins in the workspace as the task gives it, not as the seat before left it.
  bool BeginsApart() const { return plan_.kind == TeamKind::kVote; }
  // Whether the seat may work again.
  bool ComesBack(size_t seat) const;
  // The seat that works gave this. kInvalid: a vote without a choice, in words.
  Result<TeamNext> After(const std::string& given);

 private:
  bool IsChooser(size_t seat) const { return seat + 1 == plan_.seats.size(); }
  Result<TeamNext> Choose(const std::string& given) const;
  TeamNext Go(size_t seat, std::string given);

  const TeamPlan& plan_;
  size_t seat_ = 0;
  size_t place_ = 0;     // in the order of a chain
  uint32_t rounds_ = 0;  // of a review that are over
  std::vector<std::string> answers_{};
};

// The task as the seat reads it at first. One that does not submit has no file for its answer.
v1::Task TaskFor(const TeamSeat& seat, bool submits, const v1::Task& task,
                 const std::string& given);

}  // namespace tidemill
