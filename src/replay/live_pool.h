// Trajectories of sessions that wait for a batch, the oldest first. They have no group and no
// credit: each brings what it is compared with (v1::LiveCredit) and is used once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Not thread-safe.
class LivePool {
 public:
  // `tenant_share`: at most this share of what is taken at once is of one tenant, but always one.
  explicit LivePool(size_t capacity, double tenant_share = 1)
      : capacity_(capacity), tenant_share_(tenant_share) {}

  enum class Put {
    kNew,
    kRevised,  // it waits here: its verdict and credit were replaced
    kKnown,    // it was used or dropped before, or there is nothing to revise
  };
  // A trajectory that may be used, or one that waits here already with a new verdict.
  Put Add(v1::Sample sample);
  // A new verdict for one that was put before.
  Put Revise(v1::SampleRevised revised);
  // Above the capacity the oldest of the tenant with the most leaves, for good: who floods the pool
  // displaces nobody else.
  std::optional<v1::Sample> Overflow();
  // Those for which `drop` says so leave for good.
  std::vector<v1::Sample> Drop(const std::function<bool(const v1::Sample&)>& drop);
  // How many of `count` can be taken at once, no tenant giving more than its share.
  size_t Available(size_t count) const;
  // The `count` oldest within the shares, for good; as many must be available.
  std::vector<v1::Sample> Take(size_t count);

  // The session was deleted: nothing of it is used from here on.
  void Forget(uint64_t session);

  size_t size() const { return waiting_.size(); }

 private:
  static std::string KeyOf(const v1::TrajectoryId& id);
  Put Replace(const std::string& key, v1::Verdict& verdict, v1::LiveCredit& credit);
  v1::Sample Remove(std::map<uint64_t, v1::Sample>::iterator it);
  size_t MostOfOne(size_t count) const;

  const size_t capacity_;
  const double tenant_share_;
  std::map<std::string, size_t> tenants_;   // how many of each wait
  std::unordered_set<uint64_t> forgotten_;  // sessions
  uint64_t next_ = 0;
  std::map<uint64_t, v1::Sample> waiting_;  // in the order they came
  std::unordered_map<std::string, uint64_t> places_;
  // The newest that left: a revision of one may still be on its way.
  std::unordered_set<std::string> left_;
  std::deque<std::string> left_order_;
};

}  // namespace tidemill
