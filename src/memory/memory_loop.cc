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
constexpr size_t kLearningAtOnce = 16384;  // cases the store may owe an answer for

}  // namespace

MemoryLoop::MemoryLoop(Bus& bus, StorePort& store, const TaskBook& tasks, MemoryOptions options,
                       const CasesState& earlier)
    : bus_(bus),
      store_(store),
      options_(std::move(options)),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period),
      bank_(options_.bank) {
  for (const CasesState::Learned& one : earlier.cases) bank_.Apply(one.number, one.record);
  for (const CasesState::Scored& one : earlier.unlearned) {
    const v1::Task* task = tasks.Find(one.trajectory.id().task());
    if (task == nullptr) continue;
    std::optional<v1::CaseRecord> record = MakeCase(*task, one.trajectory, one.verdict);
    if (record) owed_.push_back(std::move(*record));
  }
  counters_.cases = bank_.cases().size();
}

void MemoryLoop::Attach(Waker& waker) {
  bus_.Subscribe(kMemoryGroupsTopic, waker);
  bus_.Subscribe(kMemoryCasesTopic, waker);
  store_.events().Attach(waker);
}

Time MemoryLoop::Step(Time now) {
  TakeStored();
  TakeCases(now);
  TakeGroups();
  for (const uint64_t lost : leases_.Extend(now)) (void)lost;  // it comes again and is refused
  outbox_.Flush(now);
  counters_.cases = bank_.cases().size();
  if (!owed_.empty()) return now + milliseconds(1);
  return std::min(now + (outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(200)),
                  leases_.next());
}

void MemoryLoop::Submit(uint64_t tag, v1::CaseRecord record) {
  store_.Submit(PutCase{record}, tag);
  learning_.emplace(tag, std::move(record));
}

void MemoryLoop::TakeCases(Time now) {
  if (learning_.size() + 2 * kMemoryAtOnce > kLearningAtOnce) return;
  for (size_t i = 0; i < kMemoryAtOnce && !owed_.empty(); ++i) {
    Submit(next_tag_++, std::move(owed_.front()));
    owed_.pop_front();
  }
  std::vector<Lease> leases = TakeFrom(bus_, kMemoryCasesTopic, kMemoryAtOnce);
  took_all_ = leases.empty();
  for (Lease& lease : leases) {
    v1::CaseRecord record;
    if (!ReadOrReject(bus_, lease, record, options_.limits)) continue;
    const uint64_t tag = next_tag_++;
    leases_.Hold(tag, std::move(lease), now);
    Submit(tag, std::move(record));
  }
}

void MemoryLoop::TakeStored() {
  for (const StoreDone& done : store_.events().TakeAll()) {
    auto node = learning_.extract(done.tag);
    TM_CHECK(!node.empty(), "the store answered for a case that was not submitted");
    if (done.status.ok()) {
      Learn(done.version, node.mapped());
    } else if (done.status.code() != Code::kExists) {  // a repetition changes nothing
      throw std::runtime_error("the run's database: " + done.status.ToString());
    }
    if (leases_.Holds(done.tag)) (void)bus_.Ack(leases_.Take(done.tag));
  }
}

void MemoryLoop::Learn(uint64_t number, const v1::CaseRecord& record) {
  const BankChange change = bank_.Apply(number, record);
  ++counters_.learned;
  if (change.merged_into != 0) ++counters_.merged;
  if (change.forgotten != 0) ++counters_.forgotten;
}

void MemoryLoop::TakeGroups() {
  // What an earlier process owed is learned first: groups of a resumed run see what they would
  // have.
  if (!owed_.empty()) return;
  for (Lease& lease : TakeFrom(bus_, kMemoryGroupsTopic, kMemoryAtOnce)) {
    v1::GroupLease group;
    if (!ReadOrReject(bus_, lease, group, options_.limits)) continue;
    AddContexts(group);
    outbox_.Publish(kGroupsTopic, group.SerializeAsString(), std::move(lease));
  }
}

// An evaluation is shown what is known to be best, and never an attempt at the same task.
void MemoryLoop::AddContexts(v1::GroupLease& group) {
  CaseQuery query{.scope = ScopeOf(group.task()), .prompt = group.task().prompt()};
  const bool evaluates = group.purpose() == v1::PURPOSE_EVAL;
  if (evaluates) query.not_task = group.task().id();
  const auto sets = bank_.Choose(query, {.how = options_.how,
                                         .cases = options_.cases,
                                         .members = group.members(),
                                         .seed = group.seed(),
                                         .explore = !evaluates});
  const std::optional<v1::ShownCase> tools = bank_.ShowTools(query.scope);
  const bool any =
      tools || std::any_of(sets.begin(), sets.end(), [](const auto& set) { return !set.empty(); });
  if (!any) return;  // the members share their prompt then
  group.set_max_case_tokens(options_.case_tokens);
  for (const std::vector<uint64_t>& set : sets) {
    v1::CaseSet& cases = *group.add_contexts();
    for (const uint64_t number : set) *cases.add_cases() = bank_.Show(number);
    counters_.shown += set.size();
    if (!tools) continue;
    // Behind the best case: where there is no room for all, the others go first.
    *cases.add_cases() = *tools;
    for (int i = cases.cases_size() - 1; i > 1; --i) cases.mutable_cases()->SwapElements(i, i - 1);
  }
}

}  // namespace tidemill
