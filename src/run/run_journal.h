// Takes what loops have to tell and hands it to the run's own thread: metrics.jsonl, the terminal,
// the page.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/journal.h"
#include "core/mutex.h"

namespace tidemill {

struct JournalEntry {
  int64_t at_ms = 0;
  std::string kind;
  Numbers numbers;
  Words words;
  std::string ToJson() const;
  // Reads a line of ToJson. Nothing: the line is not one.
  static std::optional<JournalEntry> Parse(const std::string& line);
};

// Thread-safe. Bounded: if nobody takes entries, the oldest go, and their number is told.
class RunJournal final : public Journal {
 public:
  explicit RunJournal(const Clock& clock) : clock_(clock) {}
  void Record(std::string_view kind, const Numbers& numbers, const Words& words) override;
  std::vector<JournalEntry> TakeAll();

 private:
  static constexpr size_t kMost = 100'000;
  const Clock& clock_;
  Mutex mutex_;
  std::deque<JournalEntry> entries_ TM_GUARDED_BY(mutex_);
  uint64_t dropped_ TM_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidemill
