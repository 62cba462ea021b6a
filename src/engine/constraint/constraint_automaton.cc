#include "engine/constraint/constraint_automaton.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <unordered_set>

#include "core/random.h"

namespace tidemill {
namespace {

constexpr size_t kFewInside = 256;

size_t Words(int32_t size) {
  return (static_cast<size_t>(size) + 63) / 64;
}

void SetBit(std::vector<uint64_t>& bits, TokenId id) {
  bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
}

}  // namespace

size_t ConstraintAutomaton::KeyHash::operator()(const std::pair<NetworkState, int32_t>& key) const {
  return MixHash(static_cast<uint64_t>(key.first), static_cast<uint64_t>(key.second));
}

ConstraintAutomaton::ConstraintAutomaton(std::shared_ptr<const ByteNetwork> network,
                                         std::shared_ptr<const TokenVocabulary> vocabulary,
                                         const AutomatonLimits& limits)
    : network_(std::move(network)), vocabulary_(std::move(vocabulary)), limits_(limits) {
  MutexLock lock(mutex_);
  frames_.resize(2);  // kNoCall, kOutside
  start_ = Closed({{network_->starts[static_cast<size_t>(network_->root)], kNoCall}});
}

int32_t ConstraintAutomaton::Called(NetworkState back, int32_t outer) {
  // Nothing is left to do behind the call: its caller's caller goes on.
  if (network_->states[static_cast<size_t>(back)].OnlyLast()) return outer;
  const auto [it, added] =
      frame_of_.try_emplace({back, outer}, static_cast<int32_t>(frames_.size()));
  if (added) frames_.push_back({back, outer});
  return it->second;
}

bool ConstraintAutomaton::Over(size_t times) const {
  return states_.size() > times * limits_.states || frames_.size() > times * limits_.calls ||
         mask_bytes_ > times * limits_.mask_bytes || state_places_ > times * limits_.state_places;
}

bool ConstraintAutomaton::worn() const {
  MutexLock lock(mutex_);
  return Over(1);
}

size_t ConstraintAutomaton::bytes() const {
  constexpr size_t kStateBytes = sizeof(State) + sizeof(std::array<StateId, 256>) + 64;
  MutexLock lock(mutex_);
  return mask_bytes_ + state_places_ * sizeof(Place) + states_.size() * kStateBytes +
         frames_.size() * 4 * sizeof(Frame);
}

// Everything that is reached from the places without a byte; of it those that take one are kept.
ConstraintAutomaton::StateId ConstraintAutomaton::Closed(std::vector<Place> work) {
  State made;
  std::unordered_set<uint64_t> seen;
  const auto add = [&](std::vector<Place>& to, Place place) {
    const uint64_t key =
        static_cast<uint64_t>(place.state) << 32 | static_cast<uint32_t>(place.calls);
    if (seen.insert(key).second) to.push_back(place);
  };
  std::vector<Place> open;
  size_t first_bytes = 0;
  for (const Place& place : work) add(open, place);
  while (!open.empty()) {
    if (seen.size() > 4 * limits_.places || Over(4)) return kDead;
    const Place place = open.back();
    open.pop_back();
    const ByteNetwork::State& state = network_->states[static_cast<size_t>(place.state)];
    if (!state.edges.empty()) made.places.push_back(place);
    for (const ByteNetwork::Edge& edge : state.edges) first_bytes += edge.high - edge.low + 1u;
    for (const NetworkState to : state.free) add(open, {to, place.calls});
    for (const ByteNetwork::Call& call : state.calls) {
      add(open, {network_->starts[static_cast<size_t>(call.rule)], Called(call.back, place.calls)});
    }
    if (!state.last) continue;
    if (place.calls == kNoCall) {
      made.accepts = true;
    } else if (place.calls == kOutside) {
      made.leaves = true;
    } else {
      const Frame frame = frames_[static_cast<size_t>(place.calls)];
      add(open, {frame.back, frame.outer});
    }
  }
  if (made.places.size() > limits_.places || first_bytes > limits_.first_bytes) return kDead;
  if (made.places.empty() && !made.accepts && !made.leaves) return kDead;
  std::sort(made.places.begin(), made.places.end());
  return Intern(std::move(made));
}

ConstraintAutomaton::StateId ConstraintAutomaton::Intern(State state) {
  uint64_t hash = (state.accepts ? 1u : 0u) + (state.leaves ? 2u : 0u);
  for (const Place& place : state.places) {
    hash = MixHash(hash,
                   static_cast<uint64_t>(place.state) << 32 | static_cast<uint32_t>(place.calls));
  }
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const State& other = states_[static_cast<size_t>(it->second)];
    if (other.places == state.places && other.accepts == state.accepts &&
        other.leaves == state.leaves) {
      return it->second;
    }
  }
  const auto id = static_cast<StateId>(states_.size());
  state_places_ += state.places.size();
  states_.push_back(std::move(state));
  known_.emplace(hash, id);
  return id;
}

ConstraintAutomaton::StateId ConstraintAutomaton::Next(StateId from, uint8_t byte) {
  auto& next = states_[static_cast<size_t>(from)].next;
  if (!next) {
    next = std::make_unique<std::array<StateId, 256>>();
    next->fill(kUnknown);
  }
  const StateId known = (*next)[byte];
  if (known != kUnknown) return known;
  std::vector<Place> places;
  for (const Place& place : states_[static_cast<size_t>(from)].places) {
    for (const auto& edge : network_->states[static_cast<size_t>(place.state)].edges) {
      if (edge.low <= byte && byte <= edge.high) places.push_back({edge.to, place.calls});
    }
  }
  const StateId to = places.empty() ? kDead : Closed(std::move(places));
  (*states_[static_cast<size_t>(from)].next)[byte] = to;
  return to;
}

ConstraintAutomaton::StateId ConstraintAutomaton::Follow(StateId state, std::string_view bytes) {
  MutexLock lock(mutex_);
  for (const char byte : bytes) {
    if (state == kDead) return kDead;
    state = Next(state, static_cast<uint8_t>(byte));
  }
  return state;
}

bool ConstraintAutomaton::Accepts(StateId state) const {
  MutexLock lock(mutex_);
  return state != kDead && states_[static_cast<size_t>(state)].accepts;
}

// The part's nodes are below one at which the automaton is in `from`. each(node, state) for every
// node that is reached.
template <typename Each>
void ConstraintAutomaton::Walk(StateId from, const Part& part, const Each& each) {
  const std::vector<TokenVocabulary::Node>& nodes = vocabulary_->nodes();
  std::vector<StateId> states(static_cast<size_t>(vocabulary_->depth() + 2), kDead);
  states[static_cast<size_t>(part.depth - 1)] = from;
  for (int32_t i = part.first; i < part.end;) {
    const TokenVocabulary::Node& node = nodes[static_cast<size_t>(i)];
    if (node.deepest <= part.deeper) {
      i = node.end;
      continue;
    }
    const StateId above = states[node.depth - 1u];
    const auto& next = states_[static_cast<size_t>(above)].next;
    StateId here = next ? (*next)[node.byte] : kUnknown;
    if (here == kUnknown) here = Next(above, node.byte);
    if (here == kDead) {
      i = node.end;
      continue;
    }
    states[node.depth] = here;
    each(i, here);
    ++i;
  }
}

// Of tokens, and of places where the rule ends inside of one, those deeper than `deeper`.
ConstraintAutomaton::Inside ConstraintAutomaton::WalkInside(NetworkState state, int32_t deeper) {
  State alone;
  alone.places.push_back({state, kOutside});
  const StateId from = Intern(std::move(alone));
  const auto& nodes = vocabulary_->nodes();
  Inside inside;
  const Part all{.end = static_cast<int32_t>(nodes.size()), .deeper = deeper};
  Walk(from, all, [&](int32_t i, StateId here) TM_REQUIRES(mutex_) {
    const TokenVocabulary::Node& node = nodes[static_cast<size_t>(i)];
    if (node.depth <= deeper) return;
    for (int32_t t = 0; t < node.count; ++t) {
      inside.few.push_back(vocabulary_->tokens()[static_cast<size_t>(node.tokens + t)]);
    }
    if (states_[static_cast<size_t>(here)].leaves && node.end > i + 1) inside.leaves.push_back(i);
  });
  return inside;
}

// Tokens of at most `room` bytes are the same for the state that is alike.
void ConstraintAutomaton::TakeShorter(const Inside& alike, int32_t room, Inside& inside) const {
  const auto take = [&](TokenId id) {
    if (vocabulary_->Bytes(id).size() <= static_cast<size_t>(room)) inside.few.push_back(id);
  };
  for (const TokenId id : alike.few) take(id);
  for (size_t i = 0; i < alike.bits.size(); ++i) {
    for (uint64_t word = alike.bits[i]; word != 0; word &= word - 1) {
      take(static_cast<TokenId>(i * 64 + static_cast<size_t>(std::countr_zero(word))));
    }
  }
  for (const int32_t leaf : alike.leaves) {
    if (vocabulary_->nodes()[static_cast<size_t>(leaf)].depth <= room)
      inside.leaves.push_back(leaf);
  }
}

const ConstraintAutomaton::Inside& ConstraintAutomaton::InsideOf(NetworkState state) {
  const ByteNetwork::State& place = network_->states[static_cast<size_t>(state)];
  const auto room = static_cast<int32_t>(std::min<uint32_t>(place.room, INT32_MAX));
  if (room >= std::max(vocabulary_->depth(), 1)) state = place.alike;
  const auto found = inside_.find(state);
  if (found != inside_.end()) return found->second;
  const bool shares = room > 0 && state != place.alike;
  Inside inside = WalkInside(state, shares ? room : 0);
  if (shares) TakeShorter(InsideOf(place.alike), room, inside);
  if (inside.few.size() > kFewInside) {
    inside.bits.resize(Words(vocabulary_->size()));
    for (const TokenId id : inside.few) SetBit(inside.bits, id);
    inside.few = {};
  }
  inside.few.shrink_to_fit();
  inside.leaves.shrink_to_fit();
  mask_bytes_ += inside.bits.size() * sizeof(uint64_t) + inside.leaves.size() * sizeof(int32_t);
  return inside_.emplace(state, std::move(inside)).first->second;
}

void ConstraintAutomaton::AddMask(const Place& place, std::vector<uint64_t>& bits) {
  const Inside& inside = InsideOf(place.state);
  for (const TokenId id : inside.few) SetBit(bits, id);
  for (size_t i = 0; i < inside.bits.size(); ++i) bits[i] |= inside.bits[i];
  if (inside.leaves.empty() || place.calls == kNoCall || place.calls == kOutside) return;
  const Frame frame = frames_[static_cast<size_t>(place.calls)];
  const StateId outside = Closed({{frame.back, frame.outer}});
  if (outside == kDead) return;
  const auto& nodes = vocabulary_->nodes();
  for (const int32_t leaf : inside.leaves) {
    const TokenVocabulary::Node& at = nodes[static_cast<size_t>(leaf)];
    const Part below{.first = leaf + 1, .end = at.end, .depth = at.depth + 1};
    Walk(outside, below, [&](int32_t i, StateId) {
      const TokenVocabulary::Node& node = nodes[static_cast<size_t>(i)];
      for (int32_t t = 0; t < node.count; ++t) {
        SetBit(bits, vocabulary_->tokens()[static_cast<size_t>(node.tokens + t)]);
      }
    });
  }
}

std::shared_ptr<const TokenMask> ConstraintAutomaton::Mask(StateId state) {
  static const auto kNothing = std::make_shared<const TokenMask>();
  MutexLock lock(mutex_);
  if (state == kDead) return kNothing;
  if (states_[static_cast<size_t>(state)].mask) return states_[static_cast<size_t>(state)].mask;
  std::vector<uint64_t> bits(Words(vocabulary_->size()));
  const std::vector<Place> places = states_[static_cast<size_t>(state)].places;
  for (const Place& place : places) AddMask(place, bits);
  if (states_[static_cast<size_t>(state)].accepts) {
    for (const TokenId id : vocabulary_->ends()) SetBit(bits, id);
  }
  auto mask = std::make_shared<const TokenMask>(std::move(bits));
  mask_bytes_ += mask->bytes();
  states_[static_cast<size_t>(state)].mask = mask;
  return mask;
}

}  // namespace tidemill
