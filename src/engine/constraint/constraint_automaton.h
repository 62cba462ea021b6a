// A network over bytes made deterministic as it is used: each state knows which tokens may follow.
//
//   state + byte -> state      state -> TokenMask, computed once
//
// A state is a set of places in the network, each with the calls it came by. Which tokens a place
// takes inside of its own rule does not depend on these calls and is computed once for the place;
// only what is left of a token behind the rule's end is followed for each state.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "engine/constraint/byte_network.h"
#include "engine/constraint/token_mask.h"
#include "engine/constraint/token_vocabulary.h"

namespace tidemill {

// How large one automaton may grow.
struct AutomatonLimits {
  size_t places = 2048;                   // of a state; what would have more does not exist
  size_t first_bytes = 16'384;            // that its places take, added up; the same
  size_t states = 60'000;                 // then it is worn
  size_t calls = 500'000;                 // remembered ways of calls; the same
  size_t mask_bytes = size_t{192} << 20;  // the same
  size_t state_places = 4'000'000;        // of all states; the same
};

// Thread-safe.
class ConstraintAutomaton {
 public:
  using StateId = int32_t;
  static constexpr StateId kDead = -1;

  // `vocabulary` must outlive it.
  ConstraintAutomaton(std::shared_ptr<const ByteNetwork> network,
                      std::shared_ptr<const TokenVocabulary> vocabulary,
                      const AutomatonLimits& limits = {});

  StateId start() const { return start_; }
  // Behind the bytes; kDead: they do not fit.
  StateId Follow(StateId state, std::string_view bytes);
  // Whether the text may end here.
  bool Accepts(StateId state) const;
  // The tokens that may follow, those that end a turn where it accepts. Never null; empty where no
  // token fits.
  std::shared_ptr<const TokenMask> Mask(StateId state);
  // It has grown over its bounds: whoever comes anew should use another one. At four times the
  // bounds no state is added any more.
  bool worn() const;
  // What it takes, about.
  size_t bytes() const;

 private:
  // A place in the network and the calls it came by, the last first.
  struct Place {
    NetworkState state = 0;
    int32_t calls = 0;
    bool operator==(const Place&) const = default;
    auto operator<=>(const Place&) const = default;
  };
  struct Frame {
    NetworkState back = 0;
    int32_t outer = 0;
  };
  // Where a place takes a token inside of its rule.
  struct Inside {
    std::vector<TokenId> few;
    std::vector<uint64_t> bits;   // instead of few
    std::vector<int32_t> leaves;  // nodes of the tree at which the rule ends inside of tokens
  };
  struct State {
    std::vector<Place> places;
    bool accepts = false;  // the root rule ended
    bool leaves = false;   // the rule of the place that a walk inside began with ended
    std::unique_ptr<std::array<StateId, 256>> next;  // kUnknown: not asked for yet
    std::shared_ptr<const TokenMask> mask;
  };
  struct KeyHash {
    size_t operator()(const std::pair<NetworkState, int32_t>& key) const;
  };
  static constexpr StateId kUnknown = -2;
  static constexpr int32_t kNoCall = 0;   // of the root rule
  static constexpr int32_t kOutside = 1;  // of a walk inside: whoever called

  StateId Next(StateId state, uint8_t byte) TM_REQUIRES(mutex_);
  StateId Closed(std::vector<Place> places) TM_REQUIRES(mutex_);
  StateId Intern(State state) TM_REQUIRES(mutex_);
  int32_t Called(NetworkState back, int32_t outer) TM_REQUIRES(mutex_);
  const Inside& InsideOf(NetworkState state) TM_REQUIRES(mutex_);
  void AddMask(const Place& place, std::vector<uint64_t>& bits) TM_REQUIRES(mutex_);
  // Nodes of the tree: [first, end), which begin at `depth`; of them those below which there is
  // something deeper than `deeper`.
  struct Part {
    int32_t first = 0, end = 0, depth = 1, deeper = 0;
  };
  template <typename Each>
  void Walk(StateId from, const Part& part, const Each& each) TM_REQUIRES(mutex_);
  Inside WalkInside(NetworkState state, int32_t deeper) TM_REQUIRES(mutex_);
  void TakeShorter(const Inside& alike, int32_t room, Inside& inside) const;
  bool Over(size_t times) const TM_REQUIRES(mutex_);

  const std::shared_ptr<const ByteNetwork> network_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const AutomatonLimits limits_;
  StateId start_ = kDead;

  mutable Mutex mutex_;
  std::vector<State> states_ TM_GUARDED_BY(mutex_);
  std::unordered_multimap<size_t, StateId> known_ TM_GUARDED_BY(mutex_);  // by a hash of its places
  std::vector<Frame> frames_ TM_GUARDED_BY(mutex_);
  std::unordered_map<std::pair<NetworkState, int32_t>, int32_t, KeyHash> frame_of_
      TM_GUARDED_BY(mutex_);
  std::unordered_map<NetworkState, Inside> inside_ TM_GUARDED_BY(mutex_);
  size_t mask_bytes_ TM_GUARDED_BY(mutex_) = 0;
  size_t state_places_ TM_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidemill
