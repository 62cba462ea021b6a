// The bank of a run as several threads use it: the memory loop learns and chooses, workers of the
// gateway look up what a tenant's sessions are shown, a deletion takes cases out.
//
//   MemoryLoop -> Apply, With     gateway -> Look     deletion -> Erase
//
// Nothing under its lock waits for a disk or for another thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "memory/case_bank.h"
#include "store/run_db.h"

namespace tidemill {

// Thread-safe.
class CaseShelf {
 public:
  explicit CaseShelf(MemoryConfig options);

  // Numbers rise from call to call. A record of a session that was erased changes nothing.
  BankChange Apply(uint64_t number, const v1::CaseRecord& record);
  // `use` gets the bank, which nobody changes meanwhile.
  template <typename Use>
  auto With(const Use& use) const {
    MutexLock lock(mutex_);
    return use(std::as_const(*bank_));
  }

  struct Wanted {
    std::string tenant;
    std::string prompt;
    Retrieval how = Retrieval::kLexical;
    size_t cases = 8;
  };
  // Cases of the tenant and of nobody else, the most useful first. None, too, where the bank is not
  // free within a few milliseconds: nobody waits for memory.
  std::vector<v1::ShownCase> Look(const Wanted& wanted) const;

  // Takes the cases of these sessions out, for good. `read` gives all that the database still has:
  // the bank is made anew from it, as the next process would make it. How many cases are gone;
  // otherwise the failure of `read`, with these sessions' cases gone all the same.
  Result<uint64_t> Erase(const std::vector<uint64_t>& sessions,
                         const std::function<Result<std::vector<CasesState::Learned>>()>& read);

 private:
  const MemoryConfig options_;
  Mutex erasing_;  // one deletion at a time; taken before mutex_
  mutable Mutex mutex_;
  std::unique_ptr<CaseBank> bank_ TM_GUARDED_BY(mutex_);
  uint64_t last_ TM_GUARDED_BY(mutex_) = 0;  // number of the last record
  std::set<uint64_t> erased_ TM_GUARDED_BY(mutex_);
  // While a deletion makes the bank anew: what was learned meanwhile.
  bool anew_ TM_GUARDED_BY(mutex_) = false;
  std::vector<CasesState::Learned> meanwhile_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
