#include "engine/constraint/byte_network.h"

#include <algorithm>
#include <utility>

namespace tidemill {
namespace {

// For each state who waits for it: without anything else, or as the way back of a call.
struct Waiting {
  std::vector<std::vector<NetworkState>> on_state;
  std::vector<std::vector<std::pair<NetworkState, NetworkRule>>> on_return;
  std::vector<std::vector<std::pair<NetworkState, NetworkState>>> on_rule;
};

}  // namespace

size_t ByteNetwork::bytes() const {
  size_t bytes = states.size() * sizeof(State) + starts.size() * sizeof(NetworkState);
  for (const State& state : states) {
    bytes += state.edges.capacity() * sizeof(Edge) + state.calls.capacity() * sizeof(Call) +
             state.free.capacity() * sizeof(NetworkState);
  }
  return bytes;
}

NetworkRule NetworkBuilder::NewRule() {
  const NetworkState start = NewState(), end = NewState();
  network_.states[Index(end)].last = true;
  starts_.push_back(start);
  ends_.push_back(end);
  return static_cast<NetworkRule>(starts_.size()) - 1;
}

// Over the bound every state is the same one: the rest of the work costs nothing and is refused.
NetworkState NetworkBuilder::NewState() {
  if (network_.states.size() >= limits_.states) {
    full_ = true;
    return 0;
  }
  network_.states.emplace_back();
  return static_cast<NetworkState>(network_.states.size()) - 1;
}

void NetworkBuilder::Bytes(NetworkState from, uint8_t low, uint8_t high, NetworkState to) {
  if (full_) return;
  for (int first = low; first <= high; ++first) {
    if (!writable_[static_cast<size_t>(first)]) continue;
    int last = first;
    while (last < high && writable_[static_cast<size_t>(last + 1)]) ++last;
    network_.states[Index(from)].edges.push_back(
        {static_cast<uint8_t>(first), static_cast<uint8_t>(last), to});
    first = last;
  }
}

void NetworkBuilder::Free(NetworkState from, NetworkState to) {
  if (!full_ && from != to) network_.states[Index(from)].free.push_back(to);
}

void NetworkBuilder::Call(NetworkState from, NetworkRule rule, NetworkState to) {
  if (!full_) network_.states[Index(from)].calls.push_back({rule, to});
}

void NetworkBuilder::Alike(NetworkState state, NetworkState alike, size_t room) {
  network_.states[Index(state)].alike = alike;
  network_.states[Index(state)].room = static_cast<uint32_t>(room);
}

NetworkState NetworkBuilder::Text(NetworkState from, std::string_view text) {
  for (const char c : text) {
    const NetworkState next = NewState();
    Bytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), next);
    from = next;
  }
  return from;
}

void NetworkBuilder::TextTo(NetworkState from, std::string_view text, NetworkState to) {
  if (text.empty()) return Free(from, to);
  from = Text(from, text.substr(0, text.size() - 1));
  const auto last = static_cast<uint8_t>(text.back());
  Bytes(from, last, last, to);
}

void NetworkBuilder::Characters(NetworkState from, uint32_t low, uint32_t high, NetworkState to) {
  static constexpr std::pair<uint32_t, uint32_t> kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
  static constexpr int kBytes[] = {1, 2, 3, 3, 4};
  for (size_t i = 0; i < std::size(kLengths); ++i) {
    const uint32_t a = std::max(low, kLengths[i].first), b = std::min(high, kLengths[i].second);
    if (a <= b) CharactersOfLength(from, a, b, kBytes[i], to);
  }
}

// Cuts the range where the bytes behind the first are not a whole range of their own.
void NetworkBuilder::CharactersOfLength(NetworkState from, uint32_t low, uint32_t high, int length,
                                        NetworkState to) {
  if (length == 1) return Bytes(from, static_cast<uint8_t>(low), static_cast<uint8_t>(high), to);
  for (int behind = length - 1; behind >= 1; --behind) {
    const uint32_t mask = (1u << (6 * behind)) - 1;
    if ((low & ~mask) == (high & ~mask)) continue;
    if ((low & mask) != 0) {
      CharactersOfLength(from, low, low | mask, length, to);
      return CharactersOfLength(from, (low | mask) + 1, high, length, to);
    }
    if ((high & mask) != mask) {
      CharactersOfLength(from, low, (high & ~mask) - 1, length, to);
      return CharactersOfLength(from, high & ~mask, high, length, to);
    }
  }
  static constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (int place = length - 1; place >= 0; --place) {
    const int shift = 6 * place;
    const bool first = place == length - 1;
    const auto part = [&](uint32_t c) {
      return static_cast<uint8_t>(first ? kLead[length] | (c >> shift)
                                        : 0x80 | ((c >> shift) & 0x3F));
    };
    const NetworkState next = place == 0 ? to : NewState();
    Bytes(from, part(low), part(high), next);
    from = next;
  }
}

std::vector<bool> NetworkBuilder::Productive() const {
  const size_t n = network_.states.size();
  Waiting waiting{
      .on_state = std::vector<std::vector<NetworkState>>(n),
      .on_return = std::vector<std::vector<std::pair<NetworkState, NetworkRule>>>(n),
      .on_rule = std::vector<std::vector<std::pair<NetworkState, NetworkState>>>(starts_.size())};
  std::vector<std::vector<NetworkRule>> begins(n);
  for (size_t r = 0; r < starts_.size(); ++r) {
    begins[Index(starts_[r])].push_back(static_cast<NetworkRule>(r));
  }
  std::vector<NetworkState> work;
  std::vector<bool> good(n, false);
  const auto mark = [&](NetworkState state) {
    if (good[Index(state)]) return;
    good[Index(state)] = true;
    work.push_back(state);
  };
  for (size_t i = 0; i < n; ++i) {
    const ByteNetwork::State& state = network_.states[i];
    const auto self = static_cast<NetworkState>(i);
    for (const auto& edge : state.edges) waiting.on_state[Index(edge.to)].push_back(self);
    for (const NetworkState to : state.free) waiting.on_state[Index(to)].push_back(self);
    for (const auto& call : state.calls) {
      waiting.on_return[Index(call.back)].emplace_back(self, call.rule);
      waiting.on_rule[Index(call.rule)].emplace_back(self, call.back);
    }
    if (state.last) mark(self);
  }
  while (!work.empty()) {
    const NetworkState state = work.back();
    work.pop_back();
    for (const NetworkState from : waiting.on_state[Index(state)]) mark(from);
    for (const auto& [from, rule] : waiting.on_return[Index(state)]) {
      if (good[Index(starts_[Index(rule)])]) mark(from);
    }
    for (const NetworkRule rule : begins[Index(state)]) {
      for (const auto& [from, back] : waiting.on_rule[Index(rule)]) {
        if (good[Index(back)]) mark(from);
      }
    }
  }
  return good;
}

// Of each state, whether the end of its rule is reached without a byte.
std::vector<bool> NetworkBuilder::Nullable() const {
  const size_t n = network_.states.size();
  std::vector<bool> null(n, false);
  std::vector<std::vector<NetworkState>> on_state(n);
  std::vector<std::vector<std::pair<NetworkState, NetworkState>>> on_rule(starts_.size());
  std::vector<std::vector<NetworkRule>> begins(n);
  for (size_t r = 0; r < starts_.size(); ++r) {
    begins[Index(starts_[r])].push_back(static_cast<NetworkRule>(r));
  }
  std::vector<NetworkState> work;
  const auto mark = [&](NetworkState state) {
    if (null[Index(state)]) return;
    null[Index(state)] = true;
    work.push_back(state);
  };
  std::vector<std::vector<std::pair<NetworkState, NetworkRule>>> on_return(n);
  for (size_t i = 0; i < n; ++i) {
    const auto self = static_cast<NetworkState>(i);
    for (const NetworkState to : network_.states[i].free) on_state[Index(to)].push_back(self);
    for (const auto& call : network_.states[i].calls) {
      on_rule[Index(call.rule)].emplace_back(self, call.back);
      on_return[Index(call.back)].emplace_back(self, call.rule);
    }
    if (network_.states[i].last) mark(self);
  }
  while (!work.empty()) {
    const NetworkState state = work.back();
    work.pop_back();
    for (const NetworkState from : on_state[Index(state)]) mark(from);
    for (const auto& [from, rule] : on_return[Index(state)]) {
      if (null[Index(starts_[Index(rule)])]) mark(from);
    }
    for (const NetworkRule rule : begins[Index(state)]) {
      for (const auto& [from, back] : on_rule[Index(rule)]) {
        if (null[Index(back)]) mark(from);
      }
    }
  }
  return null;
}

// Whether a rule can be called again before a byte was read: a walk over states, without bytes,
// that goes into calls and, past those that may be empty, behind them.
bool NetworkBuilder::CallsItself() const {
  const std::vector<bool> null = Nullable();
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> seen(starts_.size(), kNew);
  struct Frame {
    NetworkRule rule;
    std::vector<NetworkRule> calls;
    size_t next = 0;
  };
  const auto calls_of = [&](NetworkRule rule) {
    std::vector<NetworkRule> calls;
    std::vector<NetworkState> work{starts_[Index(rule)]};
    std::vector<NetworkState> visited = work;
    std::vector<bool> known(network_.states.size(), false);
    known[Index(work[0])] = true;
    while (!work.empty()) {
      const ByteNetwork::State& state = network_.states[Index(work.back())];
      work.pop_back();
      const auto go = [&](NetworkState to) {
        if (known[Index(to)]) return;
        known[Index(to)] = true;
        work.push_back(to);
      };
      for (const NetworkState to : state.free) go(to);
      for (const auto& call : state.calls) {
        calls.push_back(call.rule);
        if (null[Index(starts_[Index(call.rule)])]) go(call.back);
      }
    }
    return calls;
  };
  for (size_t first = 0; first < starts_.size(); ++first) {
    if (seen[first] != kNew) continue;
    std::vector<Frame> stack;
    const auto enter = [&](NetworkRule rule) {
      seen[Index(rule)] = kOpen;
      stack.push_back({rule, calls_of(rule)});
    };
    enter(static_cast<NetworkRule>(first));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.calls.size()) {
        seen[Index(frame.rule)] = kDone;
        stack.pop_back();
        continue;
      }
      const NetworkRule called = frame.calls[frame.next++];
      if (seen[Index(called)] == kOpen) return true;
      if (seen[Index(called)] == kNew) enter(called);
    }
  }
  return false;
}

Result<ByteNetwork> NetworkBuilder::Finish(NetworkRule root) {
  if (full_) {
    return Invalid("it is too large: more than " + std::to_string(limits_.states) + " states");
  }
  const std::vector<bool> good = Productive();
  if (!good[Index(starts_[Index(root)])]) return Invalid("nothing can satisfy it");
  for (ByteNetwork::State& state : network_.states) {
    std::erase_if(state.edges, [&](const auto& edge) { return !good[Index(edge.to)]; });
    std::erase_if(state.free, [&](NetworkState to) { return !good[Index(to)]; });
    std::erase_if(state.calls, [&](const auto& call) {
      return !good[Index(call.back)] || !good[Index(starts_[Index(call.rule)])];
    });
  }
  if (CallsItself()) return Invalid("a rule begins with itself (left recursion)");
  network_.starts = starts_;
  network_.root = root;
  return std::move(network_);
}

}  // namespace tidemill
