// Which grading goes to a box next, where more wait than boxes are free: that of the group whose
// members most likely get different rewards. A group of equal rewards teaches nothing and is
// dropped, so it can come last.
//
//   Add (waits) -> Tell (a verifier's estimate, or what execution found) -> Take
//
// A group of which no verifier has said anything counts as average, so without a verifier the order
// is that of arrival. No grading waits longer than `wait_max` for the sake of the order. Belongs to
// one loop; not thread-safe. Time is what the caller says it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "core/clock.h"

namespace tidemill {

struct GradingOrderOptions {
  Duration wait_max = std::chrono::seconds(10);
  size_t groups_max = 4096;  // remembered; those that wait are not forgotten
};

class GradingOrder {
 public:
  // An answer of a group; members that wrote the same share its verdict.
  struct Answer {
    uint64_t group = 0;
    uint64_t text = 0;  // a hash of it
  };

  explicit GradingOrder(GradingOrderOptions options) : options_(options) {}

  // `key` is the caller's name for the grading; a later one has a higher key.
  void Add(uint64_t key, const Answer& answer, Time now);
  bool Waits(uint64_t key) const { return waiting_.count(key) != 0; }
  size_t waiting() const { return waiting_.size(); }

  // The probability that the answer passes, as a verifier says.
  void Estimate(const Answer& answer, double passes);
  // Whether it passed.
  void Executed(const Answer& answer, bool passed);

  // The probability that the answers of the group seen so far do not all get the same reward. That
  // of an average group where no verifier was heard.
  double Value(uint64_t group) const;

  struct Taken {
    uint64_t key = 0;
    bool overdue = false;  // it waited for `wait_max`
  };
  // The next grading, which is forgotten. Without room only one that is overdue; nothing if there
  // is none.
  std::optional<Taken> Take(Time now, bool room);
  void Clear();

 private:
  struct Waiting {
    uint64_t group = 0;
    Time since{};
  };
  struct Group {
    std::map<uint64_t, double> passes;  // by the answer's hash; only what is known
    bool estimated = false;             // a verifier was heard
    std::set<uint64_t> waiting;         // keys
  };

  void Know(const Answer& answer, double passes, bool estimated);
  // Makes room for another group.
  void ForgetOldest();

  const GradingOrderOptions options_;
  std::map<uint64_t, Waiting> waiting_;  // by key: in the order of arrival
  std::map<uint64_t, Group> groups_;     // by number: the oldest first
  std::set<uint64_t> waiting_groups_;    // those of which a grading waits
  double average_ = 0.5;                 // value of the groups taken lately
};

}  // namespace tidemill
