// News of a loop for people while it runs: numbered facts of a kind ("step", "eval", "fault").
// Whoever made the run decides where they go (metrics.jsonl, the terminal, the page).
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tidemill {

using Numbers = std::map<std::string, double>;
using Words = std::map<std::string, std::string>;

// Thread-safe; never blocks, so that loops may call it.
class Journal {
 public:
  virtual ~Journal() = default;
  virtual void Record(std::string_view kind, const Numbers& numbers, const Words& words) = 0;
};

class NullJournal final : public Journal {
 public:
  void Record(std::string_view, const Numbers&, const Words&) override {}
};

}  // namespace tidemill
