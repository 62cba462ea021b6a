// What watches a run that serves: hears the run's journal, and is called now and then to do what
// takes time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

// What a release asks of the learner.
struct ReleaseWish {
  uint64_t step = 0;                   // of the released weights
  std::vector<uint64_t> keep{};        // versions it may be set back to
  std::optional<uint64_t> set_back{};  // to this version; asked once
};

class LiveWatch {
 public:
  virtual ~LiveWatch() = default;
  // An entry of the run's journal.
  virtual void Take(std::string_view kind, const std::map<std::string, double>& numbers,
                    const std::map<std::string, std::string>& words) = 0;
  // Several times a second, by one thread.
  virtual void Tick() = 0;
  // Called after each Tick by the same thread.
  virtual std::optional<ReleaseWish> Wish() { return std::nullopt; }
};

}  // namespace tidemill
