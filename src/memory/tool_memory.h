// Knowledge of tools apart from cases: calls that said the same in episodes of different tasks.
// What a call says about one task's work differs from task to task; what it says again and again is
// about the tool or the place it runs in. A fold over the same records as the bank of cases.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

struct ToolFact {
  std::string tool;
  std::string arguments_json;
  bool failed = false;
  std::string text;     // the first line of what it said
  uint64_t times = 0;   // episodes
  uint64_t newest = 0;  // number of the record it was seen in last
};

// Belongs to one thread at a time.
class ToolMemory {
 public:
  static constexpr size_t kCallsMax = 4096;  // kept for a scope; the one seen longest ago goes

  // Numbers rise from call to call.
  void Apply(uint64_t number, const v1::CaseRecord& record);
  // The notes of the scope: failures first, then by how often it was seen, then the newest.
  std::vector<ToolFact> Facts(const std::string& scope, size_t most) const;
  // "bash {"command":"make"} failed: make: not found"
  static std::string Line(const ToolFact& fact);
  void AppendTo(std::string& bytes) const;  // for a digest

 private:
  struct Call {
    bool failed = false;
    std::string text;
    std::string task;  // of the episode that it was seen in first
    bool other_task = false;
    uint64_t times = 0;
    uint64_t newest = 0;
  };
  using Calls = std::map<std::pair<std::string, std::string>, Call>;  // by tool and arguments
  std::map<std::string, Calls> scopes_;
};

}  // namespace tidemill
