// The history of memory: the bank of a run folded from its database, for
// people. While the run goes on it follows.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/status.h"
#include "memory/case_bank.h"

namespace tidemill {

class Database;

// The bank after an episode was learned.
struct GrowthPoint {
  int64_t at_ms = 0;
  uint64_t learned = 0;  // episodes so far
  uint64_t cases = 0;
  uint64_t forgotten = 0;  // so far
};

struct ForgottenCase {
  uint64_t number = 0;
  int64_t at_ms = 0;
  double worth = 0;  // as it was estimated then
};

// Belongs to one thread at a time.
class MemoryHistory {
 public:
  static constexpr size_t kGrowthPoints = 512;
  static constexpr size_t kForgottenKept = 200;

  // The options of the run: with others the bank is another one.
  explicit MemoryHistory(MemoryConfig options);
  ~MemoryHistory();

  // Reads on for about so long. Whether everything was read is what Complete() says then. Where
  // cases were erased since, it begins anew.
  Status Advance(Database& db, std::chrono::milliseconds budget);
  bool Complete() const { return complete_; }

  const CaseBank& bank() const { return *bank_; }
  uint64_t learned() const { return learned_; }
  uint64_t merged() const { return merged_; }
  uint64_t forgotten() const { return forgotten_; }
  // In the order of time, thinned to kGrowthPoints; the last is how things are.
  std::vector<GrowthPoint> Growth() const;
  // The last to go first.
  const std::deque<ForgottenCase>& gone() const { return gone_; }

 private:
  void Apply(uint64_t number, const v1::CaseRecord& record);
  void Clear();

  const MemoryConfig options_;
  std::unique_ptr<CaseBank> bank_;
  uint64_t last_ = 0;  // number of the last that was read
  uint64_t rows_ = 0;  // read so far
  uint64_t learned_ = 0, merged_ = 0, forgotten_ = 0;
  bool complete_ = false;
  uint64_t stride_ = 1;  // episodes between two points
  std::vector<GrowthPoint> growth_;
  GrowthPoint newest_;
  std::deque<ForgottenCase> gone_;
};

}  // namespace tidemill
