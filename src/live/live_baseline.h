// The baseline of a session's reward, as it has no group: the mean over a window of other
// sessions of the same tenant and class of task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace tidemill {

// Not thread-safe.
class LiveBaseline {
 public:
  using Class = std::pair<std::string, std::string>;  // tenant, class of task

  explicit LiveBaseline(size_t window) : window_(window) {}

  // The session's reward; a later one for the same session takes the place of the earlier, as long
  // as that is in the window.
  void Put(const Class& of, uint64_t session, double reward);

  // It is compared with no more.
  void Forget(const Class& of, uint64_t session);

  struct Comparison {
    double mean = 0;
    double deviation = 0;  // sample deviation (divisor n - 1); 0 for less than two
    size_t others = 0;     // rewards that were compared with
  };
  // Of the window without this session.
  Comparison Without(const Class& of, uint64_t session) const;

  // Mean over classes of the variance within their windows, weighted by their sizes.
  double Variance() const;
  size_t classes() const { return windows_.size(); }

 private:
  struct Entry {
    uint64_t session;
    double reward;
  };
  const size_t window_;
  std::map<Class, std::deque<Entry>> windows_;  // the newest at the back
};

}  // namespace tidemill
