#include "memory/memory_loop.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bus/read_message.h"
#include "core/topics.h"
#include "tasks/case_record.h"

namespace tidemill {
namespace {

constexpr size_t kMemoryAtOnce = 64;       // messages of a step
constexpr size_t kGroupsAtOnce = 256;      // that wait for a key
constexpr size_t kLearningAtOnce = 16384;  // cases the store may owe an answer for

}  // namespace

MemoryLoop::MemoryLoop(Bus& bus, StorePort& store, const TaskBook& tasks, MemoryOptions options,
                       const CasesState& earlier, KeyPort* keys)
    : bus_(bus),
      store_(store),
      options_(std::move(options)),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period),
      own_shelf_(options_.shelf == nullptr ? std::make_unique<CaseShelf>(options_) : nullptr),
      shelf_(own_shelf_ ? *own_shelf_ : *options_.shelf),
      key_port_(keys) {
  if (keys != nullptr) keys_.emplace(*keys);
  for (const CasesState::Learned& one : earlier.cases) shelf_.Apply(one.number, one.record);
  for (const CasesState::Scored& one : earlier.unlearned) {
    const v1::Task* task = tasks.Find(one.trajectory.id().task());
    if (task == nullptr) continue;
    std::optional<v1::CaseRecord> record = MakeCase(*task, one.trajectory, one.verdict);
    if (record) owed_.push_back(std::move(*record));
  }
  counters_.cases = shelf_.With([](const CaseBank& bank) { return bank.cases().size(); });
}

void MemoryLoop::Attach(Waker& waker) {
  bus_.Subscribe(kMemoryGroupsTopic, waker);
  bus_.Subscribe(kMemoryCasesTopic, waker);
  store_.events().Attach(waker);
  if (key_port_ != nullptr) key_port_->events().Attach(waker);
}

Time MemoryLoop::Step(Time now) {
  TakeStored();
  TakeKeys();
  TakeCases(now);
  TakeGroups(now);
  // A group comes again, and so does a case, which changes nothing then.
  for (const uint64_t lost : leases_.Extend(now)) waiting_groups_.erase(lost);
  outbox_.Flush(now);
  counters_.cases = shelf_.With([](const CaseBank& bank) { return bank.cases().size(); });
  if (keys_) counters_.unread = keys_->failed();
  if (!owed_.empty()) return now + milliseconds(1);
  return std::min(now + (outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(200)),
                  leases_.next());
}

void MemoryLoop::Submit(uint64_t tag, v1::CaseRecord record) {
  store_.Submit(PutCase{record}, tag);
  learning_.emplace(tag, std::move(record));
}

// A prompt is read once: what a group asked for is there when its members' cases come.
void MemoryLoop::Keep(uint64_t tag, v1::CaseRecord record) {
  // Sessions are looked up without a key, because nobody waits for one there.
  const bool wants = keys_ && record.session() == 0 && record.key().empty();
  if (!wants) return Submit(tag, std::move(record));
  const std::vector<float>* key = keys_->Ask(record.prompt(), tag);
  if (key == nullptr) {
    unread_.emplace(tag, std::move(record));
    return;
  }
  record.mutable_key()->Add(key->begin(), key->end());
  Submit(tag, std::move(record));
}

void MemoryLoop::TakeKeys() {
  if (!keys_) return;
  for (const PromptKeys::Answer& answer : keys_->Take()) {
    if (auto record = unread_.extract(answer.tag); !record.empty()) {
      record.mapped().mutable_key()->Add(answer.key.begin(), answer.key.end());
      Submit(answer.tag, std::move(record.mapped()));
    } else if (auto group = waiting_groups_.extract(answer.tag); !group.empty()) {
      Pass(std::move(group.mapped()), leases_.Take(answer.tag), answer.key);
    }
  }
}

void MemoryLoop::TakeCases(Time now) {
  if (learning_.size() + unread_.size() + 2 * kMemoryAtOnce > kLearningAtOnce) return;
  if (keys_ && keys_->Full()) return;
  for (size_t i = 0; i < kMemoryAtOnce && !owed_.empty(); ++i) {
    Keep(next_tag_++, std::move(owed_.front()));
    owed_.pop_front();
  }
  std::vector<Lease> leases = TakeFrom(bus_, kMemoryCasesTopic, kMemoryAtOnce);
  took_all_ = leases.empty();
  for (Lease& lease : leases) {
    v1::CaseRecord record;
    if (!ReadOrReject(bus_, lease, record, options_.limits)) continue;
    if (!InItsScope(record)) {
      (void)bus_.Reject(lease, "a case in the scope of another tenant");
      continue;
    }
    // It was read here before, and a session's newer score may have been since: stored now, the one
    // that was taken back would be the newest.
    if (record.session() != 0 && lease.deliveries > 1) {
      (void)bus_.Ack(lease);
      continue;
    }
    const uint64_t tag = next_tag_++;
    leases_.Hold(tag, std::move(lease), now);
    Keep(tag, std::move(record));
  }
}

void MemoryLoop::TakeStored() {
  for (const StoreDone& done : store_.events().TakeAll()) {
    auto node = learning_.extract(done.tag);
    TM_CHECK(!node.empty(), "the store answered for a case that was not submitted");
    if (done.status.ok()) {
      Learn(done.version, node.mapped());
    } else if (done.status.code() != Code::kExists && done.status.code() != Code::kNotFound) {
      // A repetition changes nothing, nor does a session that was deleted.
      throw std::runtime_error("the run's database: " + done.status.ToString());
    }
    if (leases_.Holds(done.tag)) (void)bus_.Ack(leases_.Take(done.tag));
  }
}

void MemoryLoop::Learn(uint64_t number, const v1::CaseRecord& record) {
  const BankChange change = shelf_.Apply(number, record);
  ++counters_.learned;
  if (change.merged_into != 0) ++counters_.merged;
  if (change.forgotten != 0) ++counters_.forgotten;
}

void MemoryLoop::TakeGroups(Time now) {
  // Cases that an earlier process owed are learned first: groups of a resumed run see what they
  // would have.
  if (!owed_.empty() || waiting_groups_.size() >= kGroupsAtOnce) return;
  for (Lease& lease : TakeFrom(bus_, kMemoryGroupsTopic, kMemoryAtOnce)) {
    v1::GroupLease group;
    if (!ReadOrReject(bus_, lease, group, options_.limits)) continue;
    if (!keys_) {
      Pass(std::move(group), std::move(lease), {});
      continue;
    }
    const uint64_t tag = next_tag_++;
    if (const std::vector<float>* key = keys_->Ask(group.task().prompt(), tag); key != nullptr) {
      Pass(std::move(group), std::move(lease), *key);
    } else {
      leases_.Hold(tag, std::move(lease), now);
      waiting_groups_.emplace(tag, std::move(group));
    }
  }
}

void MemoryLoop::Pass(v1::GroupLease group, Lease lease, const std::vector<float>& key) {
  AddContexts(group, key);
  outbox_.Publish(kGroupsTopic, group.SerializeAsString(), std::move(lease));
}

// An evaluation is shown what is known to be best, and never an attempt at the same task.
void MemoryLoop::AddContexts(v1::GroupLease& group, const std::vector<float>& key) {
  CaseQuery query{.scope = ScopeOf(group.task()), .prompt = group.task().prompt(), .key = key};
  const bool evaluates = group.purpose() == v1::PURPOSE_EVAL;
  if (evaluates) query.not_task = group.task().id();
  const CaseRequest request{.how = RetrievalNamed(options_.retrieval).value(),
                            .cases = options_.cases,
                            .members = group.members(),
                            .seed = group.seed(),
                            .explore = !evaluates};
  shelf_.With([&](const CaseBank& bank) {
    const auto sets = bank.Choose(query, request);
    const std::string tools = bank.ShowTools(query.scope);
    const bool any = !tools.empty() || std::any_of(sets.begin(), sets.end(),
                                                   [](const auto& set) { return !set.empty(); });
    if (!any) return;  // the members share their prompt then
    group.set_max_case_tokens(options_.case_tokens);
    for (size_t member = 0; member < sets.size(); ++member) {
      // Its skills may be there already.
      const int at = static_cast<int>(member);
      v1::CaseSet& cases =
          at < group.contexts_size() ? *group.mutable_contexts(at) : *group.add_contexts();
      for (const uint64_t number : sets[member]) *cases.add_cases() = bank.Show(number);
      cases.set_tool_notes(tools);
      counters_.shown += sets[member].size();
    }
  });
}

std::string MemoryLoop::Digest() const {
  return shelf_.With([](const CaseBank& bank) { return bank.Digest(); });
}

}  // namespace tidemill
