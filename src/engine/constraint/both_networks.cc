#include "engine/constraint/both_networks.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace tidemill {
namespace {

using Pair = std::pair<NetworkState, NetworkState>;

const ByteNetwork::State& StateOf(const ByteNetwork& network, NetworkState state) {
  return network.states[static_cast<size_t>(state)];
}

NetworkState StartOf(const ByteNetwork& network) {
  return network.starts[static_cast<size_t>(network.root)];
}

}  // namespace

void AddBoth(NetworkBuilder& builder, NetworkState from, const ByteNetwork& a, const ByteNetwork& b,
             NetworkState to) {
  std::map<Pair, NetworkState> known;
  std::vector<Pair> work;
  const auto at = [&](const Pair& pair) {
    const auto [it, added] = known.try_emplace(pair, 0);
    if (added) {
      it->second = builder.NewState();
      work.push_back(pair);
    }
    return it->second;
  };
  builder.Free(from, at({StartOf(a), StartOf(b)}));
  while (!work.empty() && !builder.full()) {
    const Pair pair = work.back();
    work.pop_back();
    const NetworkState here = known.at(pair);
    const ByteNetwork::State &of_a = StateOf(a, pair.first), &of_b = StateOf(b, pair.second);
    TM_CHECK(of_a.calls.empty() && of_b.calls.empty(), "networks of one rule");
    for (const NetworkState next : of_a.free) builder.Free(here, at({next, pair.second}));
    for (const NetworkState next : of_b.free) builder.Free(here, at({pair.first, next}));
    for (const ByteNetwork::Edge& one : of_a.edges) {
      for (const ByteNetwork::Edge& other : of_b.edges) {
        const uint8_t low = std::max(one.low, other.low), high = std::min(one.high, other.high);
        if (low <= high) builder.Bytes(here, low, high, at({one.to, other.to}));
      }
    }
    if (of_a.last && of_b.last) builder.Free(here, to);
  }
}

}  // namespace tidemill
