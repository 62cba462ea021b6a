// What a closed session gives to training: every sampled token either once, in one trajectory, or
// not at all, with the reason.
//
//   Session -> which turns are trained -> chains of turns that extend one another -> trajectories
//
// The same turns always give the same trajectories, so a crash between deciding and storing costs
// nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "live/session.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// Why sampled tokens are not trained. The values are names of metrics.
namespace untrained {
inline constexpr const char* kConsent = "consent";  // the tenant agreed to storing only
inline constexpr const char* kSecret = "secret";    // its context or output held a secret
inline constexpr const char* kSide = "side";        // a helper's turn: a title, a summary
inline constexpr const char* kCut = "cut";          // the client left before its end
inline constexpr const char* kRetried = "retried";  // another answer to the question counts
inline constexpr const char* kChoice = "choice";    // of n choices one that was not continued
inline constexpr const char* kSampling =
    "sampling";  // drawn at temperature 0, or from nobody knows what
inline constexpr const char* kForced = "forced";  // given by a tool choice or a grammar
}  // namespace untrained

struct Settlement {
  // Of turns: empty: trained. Those that were settled before are not here.
  std::map<uint32_t, std::string> reasons{};
  std::map<std::string, uint64_t> tokens{};  // sampled, by reason; "trained" for the rest
  uint64_t sampled = 0;
  uint32_t branches = 0;   // turns that share messages with an earlier one and extend none
  uint32_t rewritten = 0;  // answers that came back altered
  std::vector<v1::Trajectory> trajectories{};
};

// For the turns behind `after` up to `up_to`. Of what lies outside only answers and order count.
// `close` is how often the session was closed, this time counted.
Settlement Settle(const Session& session, uint32_t after, uint32_t up_to, uint32_t close);

}  // namespace tidemill
