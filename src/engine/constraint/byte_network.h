// Constrained decoding: what a turn may say, as sets of tokens.
//
//   schema, regex, choices, grammar -> ByteNetwork -> ConstraintAutomaton -> TokenMask of a state
//
// This file is the form that all of them compile to: rules over bytes that may call each other, so
// that JSON nests as deep as it likes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

// Bounds of one constraint, whoever wrote it.
struct ConstraintLimits {
  size_t text_bytes = size_t{1} << 20;  // of a schema, a pattern, a grammar
  size_t states = 300'000;              // of the network
  size_t depth = 200;                   // of nested schemas and groups
};

using NetworkState = int32_t;
using NetworkRule = int32_t;

// Immutable. Every state can reach the end of its rule, no rule calls itself before a byte was
// read.
struct ByteNetwork {
  struct Edge {
    uint8_t low = 0, high = 0;  // bytes low .. high
    NetworkState to = 0;
  };
  struct Call {
    NetworkRule rule = 0;
    NetworkState back = 0;  // where it goes on afterwards
  };
  struct State {
    std::vector<Edge> edges{};
    std::vector<Call> calls{};
    std::vector<NetworkState> free{};  // without a byte
    bool last = false;                 // of its rule
    // Takes every text of at most `room` characters as the state `alike` does. 0: nothing is known.
    NetworkState alike = 0;
    uint32_t room = 0;
    // It is the last and nothing follows it: to come back here is to come back to the caller.
    bool OnlyLast() const { return last && edges.empty() && calls.empty() && free.empty(); }
  };
  std::vector<State> states;
  std::vector<NetworkState> starts;  // by rule
  NetworkRule root = 0;

  // What it takes, about.
  size_t bytes() const;
};

// Puts a network together. What is over the bounds shows in Finish.
class NetworkBuilder {
 public:
  using ByteSet = std::array<bool, 256>;

  // What cannot be written with bytes of `writable` is left out.
  NetworkBuilder(const ConstraintLimits& limits, const ByteSet& writable)
      : limits_(limits), writable_(writable) {}

  // A rule has a start and an end; what is between them is added afterwards.
  NetworkRule NewRule();
  NetworkState StartOf(NetworkRule rule) const { return starts_[Index(rule)]; }
  NetworkState EndOf(NetworkRule rule) const { return ends_[Index(rule)]; }

  NetworkState NewState();
  // One more end of the rule that it is reached in.
  void Last(NetworkState state) { network_.states[Index(state)].last = true; }
  void Bytes(NetworkState from, uint8_t low, uint8_t high, NetworkState to);
  void Free(NetworkState from, NetworkState to);
  void Call(NetworkState from, NetworkRule rule, NetworkState to);
  // ByteNetwork::State::alike.
  void Alike(NetworkState state, NetworkState alike, size_t room);
  // A path from `from` that spells `text`; where it ends.
  NetworkState Text(NetworkState from, std::string_view text);
  // The same, to a state that is there.
  void TextTo(NetworkState from, std::string_view text, NetworkState to);
  // A character between two code points, as UTF-8; surrogates are left out.
  void Characters(NetworkState from, uint32_t low, uint32_t high, NetworkState to);

  bool full() const { return full_; }
  size_t states() const { return network_.states.size(); }
  const ConstraintLimits& limits() const { return limits_; }
  const ByteSet& writable() const { return writable_; }

  // kInvalid: it is too large, a rule calls itself before it reads a byte, or nothing fits it.
  Result<ByteNetwork> Finish(NetworkRule root);

 private:
  static size_t Index(int32_t i) { return static_cast<size_t>(i); }
  void CharactersOfLength(NetworkState from, uint32_t low, uint32_t high, int length,
                          NetworkState to);
  std::vector<bool> Productive() const;
  std::vector<bool> Nullable() const;
  bool CallsItself() const;

  const ConstraintLimits limits_;
  const ByteSet writable_;
  ByteNetwork network_;
  std::vector<NetworkState> starts_, ends_;
  bool full_ = false;
};

}  // namespace tidemill
