#include "memory/case_shelf.h"

#include <chrono>
#include <thread>

#include "core/random.h"
#include "tasks/case_record.h"

namespace tidemill {
namespace {

constexpr int kLookTries = 10;
constexpr auto kLookPause = std::chrono::milliseconds(1);

}  // namespace

CaseShelf::CaseShelf(MemoryConfig options)
    : options_(options), bank_(std::make_unique<CaseBank>(options)) {}

BankChange CaseShelf::Apply(uint64_t number, const v1::CaseRecord& record) {
  MutexLock lock(mutex_);
  last_ = number;
  if (record.session() != 0 && erased_.contains(record.session())) return {};
  if (anew_) meanwhile_.push_back({number, record});
  return bank_->Apply(number, record);
}

std::vector<v1::ShownCase> CaseShelf::Look(const Wanted& wanted) const {
  std::vector<v1::ShownCase> shown;
  const std::string scope = TenantScope(wanted.tenant);
  const CaseRequest request{.how = wanted.how,
                            .cases = wanted.cases,
                            .seed = StableHash(wanted.prompt),
                            .explore = false};
  for (int i = 0; i < kLookTries; ++i) {
    if (mutex_.TryLock()) {
      MutexLock lock(mutex_, std::adopt_lock);
      const auto sets = bank_->Choose({.scope = scope, .prompt = wanted.prompt}, request);
      for (const uint64_t number : sets[0]) {
        const v1::CaseRecord& record = bank_->Find(number)->record;
        TM_CHECK(record.tenant() == wanted.tenant, "a case of another tenant was found");
        shown.push_back(bank_->Show(number));
      }
      return shown;
    }
    std::this_thread::sleep_for(kLookPause);
  }
  return shown;
}

Result<uint64_t> CaseShelf::Erase(
    const std::vector<uint64_t>& sessions,
    const std::function<Result<std::vector<CasesState::Learned>>()>& read) {
  MutexLock one_at_a_time(erasing_);
  std::set<uint64_t> erased;
  uint64_t last = 0, before = 0;
  {
    MutexLock lock(mutex_);
    erased_.insert(sessions.begin(), sessions.end());
    erased = erased_;
    last = last_;
    anew_ = true;
    meanwhile_.clear();
    for (const auto& [number, one] : bank_->cases())
      before += erased.contains(one.record.session());
  }
  const auto rows = read();
  auto fresh = std::make_unique<CaseBank>(options_);
  if (rows.ok()) {
    for (const CasesState::Learned& one : *rows) {
      if (one.number <= last && !erased.contains(one.record.session())) {
        fresh->Apply(one.number, one.record);
      }
    }
  }
  MutexLock lock(mutex_);
  anew_ = false;
  // Without the database the bank begins anew, empty: what was deleted is shown to nobody.
  for (const CasesState::Learned& one : meanwhile_) fresh->Apply(one.number, one.record);
  meanwhile_.clear();
  bank_ = std::move(fresh);
  if (!rows.ok()) return rows.status();
  return before;
}

}  // namespace tidemill
