// The seats of one episode's team: each with its conversation, as far as it has worked.
//
//   EpisodeSeats: Open -> (the seat that works answers) -> Leave -> TakeOver -> .. -> the end
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rollout/protocol.h"
#include "rollout/team.h"

namespace tidemill {

// What seats begin with; all of it outlives them.
struct SeatTerms {
  const TeamPlan* team = nullptr;  // null: one agent, which reads the task as it is
  const v1::Task& task;
  const AgentProtocol& protocol;
  RolePolicy policy{};  // of roles without their own
  int64_t wall_ms = 0;
};

// Not thread-safe.
class EpisodeSeats {
 public:
  struct Seat {
    v1::Task own{};                       // what it reads, where that is not the task itself
    std::unique_ptr<EpisodeTalk> talk{};  // null: it has not worked yet
    size_t tokens = 0;                    // of its whole sequence so far
    int last_turn = -1;                   // in the trajectory
    v1::Tree tree{};                      // as it left the workspace
    std::string answer{};                 // its newest
  };

  // The first seat has its conversation.
  EpisodeSeats(const SeatTerms& terms, const v1::CaseSet& cases);

  // The one that works.
  Seat& now() { return seats_[play_.seat()]; }
  size_t place() const { return play_.seat(); }
  const std::string& role() const { return plan_.seats[play_.seat()].role; }
  const RolePolicy& policy() const;
  // Whether its answer may become the episode's.
  bool Submits() const { return play_.Submits(play_.seat()); }
  bool ComesBack(size_t seat) const { return play_.ComesBack(seat); }
  const Seat& at(size_t seat) const { return seats_[seat]; }

  // It is done with the turn, in this workspace. kInvalid as TeamPlay::After.
  Result<TeamNext> Leave(const ParsedTurn& turn, const v1::Tree& tree);
  // The seat that works from here on reads what it was given, in the workspace that it finds.
  Result<NextPrompt> TakeOver(const TeamNext& next, v1::Tree& tree);

 private:
  const SeatTerms terms_;
  const TeamPlan& plan_;
  TeamPlay play_;
  std::vector<Seat> seats_;
};

}  // namespace tidemill
