#include "memory/memory_history.h"

#include <algorithm>

#include "store/case_reader.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

constexpr size_t kHistoryAtOnce = 64;  // cases of one question to the database

}  // namespace

MemoryHistory::MemoryHistory(MemoryConfig options) : options_(options) {
  Clear();
}

MemoryHistory::~MemoryHistory() = default;

void MemoryHistory::Clear() {
  bank_ = std::make_unique<CaseBank>(options_);
  last_ = rows_ = learned_ = merged_ = forgotten_ = 0;
  complete_ = false;
  stride_ = 1;
  growth_.clear();
  newest_ = {};
  gone_.clear();
}

Status MemoryHistory::Advance(Database& db, std::chrono::milliseconds budget) {
  const auto until = std::chrono::steady_clock::now() + budget;
  TM_ASSIGN_OR_RETURN(const uint64_t there, CountCases(db, last_));
  if (there != rows_) Clear();
  complete_ = false;
  while (!complete_ && std::chrono::steady_clock::now() < until) {
    TM_ASSIGN_OR_RETURN(const CasePage page, ReadCasePage(db, last_, kHistoryAtOnce));
    for (const CasesState::Learned& one : page.cases) Apply(one.number, one.record);
    rows_ += page.rows;
    last_ = page.last;
    complete_ = page.rows < kHistoryAtOnce;
  }
  return Ok();
}

void MemoryHistory::Apply(uint64_t number, const v1::CaseRecord& record) {
  const BankChange change = bank_->Apply(number, record);
  ++learned_;
  if (change.merged_into != 0) ++merged_;
  if (change.forgotten != 0) {
    ++forgotten_;
    gone_.push_front({change.forgotten, record.at_ms(), change.forgotten_worth});
    if (gone_.size() > kForgottenKept) gone_.pop_back();
  }
  // Episodes are learned in another order than they ended in; the curve goes forward.
  newest_ = {std::max(newest_.at_ms, record.at_ms()), learned_, bank_->cases().size(), forgotten_};
  if (learned_ % stride_ != 0) return;
  growth_.push_back(newest_);
  if (growth_.size() < kGrowthPoints) return;
  for (size_t i = 0; i < growth_.size() / 2; ++i) growth_[i] = growth_[2 * i + 1];
  growth_.resize(growth_.size() / 2);
  stride_ *= 2;
}

std::vector<GrowthPoint> MemoryHistory::Growth() const {
  std::vector<GrowthPoint> growth = growth_;
  if (learned_ > 0 && (growth.empty() || growth.back().learned != learned_)) {
    growth.push_back(newest_);
  }
  return growth;
}

}  // namespace tidemill
