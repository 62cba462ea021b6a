// The groups of replay from their first member to their end: when one is complete it is reported
// and put into the buffer, or dropped; what is dropped gives its credit back.
//
//   Put(member) .. CompleteIfDone -> buffer -> Draw .. Use -> Forget
//                        `-> Drop(fate)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/fate.h"
#include "replay/group_buffer.h"
#include "replay/replay_counters.h"
#include "replay/replay_group.h"
#include "replay/replay_options.h"
#include "replay/replay_writer.h"

namespace tidemill {

// A part of replay that has something to find out about members before their group is complete.
class MemberWork {
 public:
  virtual ~MemberWork() = default;
  // Whether the member's group waits for it.
  virtual bool Awaits(const ReplayMember& member) const = 0;
  // The group may be chosen for a batch from here on.
  virtual void Buffered(const ReplayGroup&) {}
  // The member leaves with its group; nothing about it is wanted any more.
  virtual void Forget(uint64_t group, const ReplayMember& member) = 0;
};

// Belongs to one loop; not thread-safe. What it is given must outlive it.
class GroupBook {
 public:
  // The buffer's options must be valid (GroupBuffer::Make).
  GroupBook(ReplayWriter& writer, const ReplayOptions& options, ReplayCounters& counters);
  // Before the first group.
  void Add(MemberWork& work) { works_.push_back(&work); }

  // Null: no such member is known.
  ReplayMember* Find(const MemberOf& about);
  // Null: no such group is known.
  ReplayGroup* Find(uint64_t group);
  ReplayGroup& at(uint64_t group) { return groups_.at(group); }
  ReplayMember& Put(v1::Trajectory trajectory);
  const std::unordered_map<uint64_t, ReplayGroup>& all() const { return groups_; }
  // What the policy may be trained on.
  GroupBuffer& BufferOf(PolicyId policy);

  void MarkStale(ReplayMember& member, Failure failure, std::string_view detail = {});
  // The same of an episode that was given up, which says itself why.
  void MarkGivenUp(ReplayMember& member);
  // The group may be gone afterwards.
  void CompleteIfDone(uint64_t group);
  // Its verdicts are others now. The group may be gone afterwards.
  void RewardsChanged(uint64_t group);
  // The policy learns nothing (more) from the group, which leaves for good where no other does.
  void DropPart(uint64_t group, PolicyId policy, Fate fate, const std::string& reason = "");
  // A step of the policy used it. The group may be gone afterwards.
  void Use(uint64_t group, PolicyId policy);

 private:
  // Why a step of the policy would learn nothing from it; nothing: it would learn.
  std::optional<std::pair<Fate, std::string>> WhyUseless(const ReplayGroup& group,
                                                         const ReplayPart& part);
  void DropUseless(uint64_t group);
  void Buffer(uint64_t group, PolicyId policy);
  void LeaveBuffer(uint64_t group, PolicyId policy);
  // Of the policy; without a team: the only one.
  std::vector<std::string> RolesOf(PolicyId policy) const;
  // The group leaves for good, its whole credit returns.
  void Drop(uint64_t group, Fate fate, const std::string& reason = "");
  void Forget(uint64_t group);
  void Exclude(ReplayMember& member, Failure failure, const std::string& reason);
  void Report(uint64_t group, v1::GroupReport report);
  void Accept(uint64_t group);

  ReplayWriter& writer_;
  const ReplayOptions& options_;
  ReplayCounters& counters_;
  std::unordered_map<uint64_t, ReplayGroup> groups_;
  std::map<PolicyId, GroupBuffer> buffers_;  // complete groups of training
  std::vector<MemberWork*> works_;
};

}  // namespace tidemill
