// The keys of prompts, each computed once: a group, its members' cases and later groups of the same
// task ask for the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/key_port.h"

namespace tidemill {

// Belongs to one loop; not thread-safe.
class PromptKeys {
 public:
  static constexpr size_t kKept = 1024;         // keys; the one computed first goes
  static constexpr size_t kCallsAtOnce = 4096;  // that the port owes; see Full

  // `port` must outlive it.
  explicit PromptKeys(KeyPort& port) : port_(port) {}

  // The key, valid until the next call of anything. Null: it is being computed, and Take() names
  // the tag when it is there; a tag is asked for once.
  const std::vector<float>* Ask(const std::string& prompt, uint64_t tag);
  // No more may be asked for now.
  bool Full() const { return asked_.size() >= kCallsAtOnce; }

  struct Answer {
    uint64_t tag = 0;
    std::vector<float> key;  // empty: it could not be computed
  };
  std::vector<Answer> Take();
  uint64_t failed() const { return failed_; }

 private:
  struct Asked {
    std::string prompt;
    std::vector<uint64_t> tags;
  };

  KeyPort& port_;
  std::unordered_map<std::string, std::vector<float>> kept_;  // by prompt
  std::deque<std::string> order_;                             // of kept_
  std::map<uint64_t, Asked> asked_;                           // by call
  std::unordered_map<std::string, uint64_t> calls_;           // by prompt
  uint64_t next_call_ = 1;
  uint64_t failed_ = 0;
};

}  // namespace tidemill
