// The part of the scheduler that lets the members of a group share their prompt.
#include "engine/scheduler.h"

namespace tidemill {

void Scheduler::Introduce(Sequence& sequence) {
  // Of a prompt of one token there is nothing to share: its row is computed by each, for the
  // logits.
  if (sequence.share_group == 0 || sequence.prompt_length < 2) {
    sequence.share_group = 0;
    return;
  }
  PromptGroup& group = groups_[sequence.share_group];
  const auto pin = sequence.pinned ? std::optional(sequence.weights.version) : std::nullopt;
  if (group.members == 0) {
    group.prompt = sequence.tokens;
    group.tenant = sequence.owner.tenant;
    group.policy = sequence.weights.policy;
    group.pin = pin;
  }
  if (group.prompt != sequence.tokens || group.tenant != sequence.owner.tenant ||
      group.policy != sequence.weights.policy || group.pin != pin) {
    sequence.share_group = 0;  // another prompt or policy: correct without sharing, only slower
    return;
  }
  ++group.members;
}

Scheduler::PromptGroup* Scheduler::GroupOf(const Sequence& sequence) {
  if (sequence.share_group == 0) return nullptr;
  const auto found = groups_.find(sequence.share_group);
  return found == groups_.end() ? nullptr : &found->second;
}

bool Scheduler::WaitsForPrompt(const Sequence& sequence) {
  if (sequence.cached > 0) return false;
  const PromptGroup* group = GroupOf(sequence);
  return group != nullptr && group->leader != nullptr && group->leader != &sequence;
}

void Scheduler::AttachPrompt(Sequence& sequence) {
  PromptGroup* group = GroupOf(sequence);
  if (sequence.cached > 0 || group == nullptr || group->pages.empty()) return;
  UsePages(sequence, group->pages, sequence.prompt_length - 1);
}

void Scheduler::PublishPrompt(Sequence& sequence) {
  PromptGroup* group = GroupOf(sequence);
  if (group == nullptr || group->leader != &sequence) return;
  const int32_t shared = sequence.prompt_length - 1;
  if (sequence.cached < shared) return;
  group->leader = nullptr;
  if (!group->pages.empty()) return;
  // The last of these pages may hold more than the prompt; whoever writes to it next gets a copy.
  const size_t pages = static_cast<size_t>((shared + kPageSlots - 1) / kPageSlots);
  group->pages.assign(sequence.pages.begin(), sequence.pages.begin() + static_cast<long>(pages));
  for (const PageId page : group->pages) pool_.Share(page);
}

void Scheduler::DropGroupPages(PromptGroup& group) {
  DropPages(group.pages);
}

}  // namespace tidemill
