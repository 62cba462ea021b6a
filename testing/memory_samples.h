// For tests: records of episodes.
#pragma once

#include <string>
#include <vector>

#include "core/random.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

inline v1::CaseRecord SampleRecord(uint64_t group, uint32_t member, const std::string& prompt,
                                   const std::string& answer, bool solved,
                                   const std::vector<uint64_t>& shown = {}) {
  v1::CaseRecord record;
  record.mutable_id()->set_task("task-" + std::to_string(group));
  record.mutable_id()->set_group(group);
  record.mutable_id()->set_member(member);
  record.mutable_id()->set_attempt(1);
  record.set_scope("here");
  record.set_prompt(prompt);
  record.set_answer(answer);
  record.set_solved(solved);
  record.set_reward(solved ? 1 : 0);
  record.set_group_members(2);
  record.mutable_shown()->Add(shown.begin(), shown.end());
  record.set_at_ms(static_cast<int64_t>(1000 + group));
  return record;
}

inline std::vector<v1::CaseRecord> RandomRecords(uint64_t seed, uint64_t groups) {
  const char* words[] = {"red", "green", "blue", "sum", "product", "tree", "list", "sort"};
  Random random(seed);
  std::vector<v1::CaseRecord> records;
  for (uint64_t group = 1; group <= groups; ++group) {
    const std::string prompt =
        std::string(words[random.Below(8)]) + " " + words[random.Below(8)] + " of all";
    for (uint32_t member = 0; member < 2; ++member) {
      std::vector<uint64_t> shown;
      if (!records.empty()) {
        for (int i = 0; i < 3; ++i) shown.push_back(1 + random.Below(records.size()));
      }
      records.push_back(SampleRecord(group, member, prompt,
                                     "answer " + std::to_string(random.Below(4)),
                                     random.Chance(0.5), shown));
    }
  }
  return records;
}

}  // namespace tidemill
