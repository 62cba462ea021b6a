// The cases of a run and how they are chosen: a fold over the records of the run's database, so
// that the same records in the same order give the same bank, to the byte, in a new process too.
//
//   record -> [its group complete: values learn] -> merged into a near-duplicate, or added
//          -> over the bound: the least useful is forgotten
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/case_value.h"
#include "memory/lexical_index.h"
#include "memory/memory_config.h"
#include "memory/tool_memory.h"
#include "memory/vector_index.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// Which cases an episode is shown.
enum class Retrieval : uint8_t {
  kLexical,  // those that share the most telling words with the task
  kHidden,   // those whose prompts the policy reads most alike; of cases without a key as kLexical
  kNewest,   // the same as kLexical, the newest of the similar ones first
  kRandom,   // any of the scope: a control
  kLearned,  // those that were worth most
};
// "lexical", "hidden", "newest", "random", "learned".
std::optional<Retrieval> RetrievalNamed(std::string_view name);

struct Case {
  v1::CaseRecord record;  // of the first of its copies
  uint64_t copies = 1;
  uint64_t newest = 0;  // learned so many records of its scope before its newest copy
  int64_t newest_ms = 0;
  uint64_t void_until = 0;  // what was learned of such tasks up to this (as `newest`) is outdated
  std::vector<std::string> words;  // of its prompt, each once, sorted
  std::string said;                // the words of its answer that its prompt does not have, sorted
};

// The changes by a record.
struct BankChange {
  bool kept = false;         // as a case of its own
  uint64_t merged_into = 0;  // 0: into none
  uint64_t forgotten = 0;    // the case that went for it; 0: none
  double forgotten_worth = 0;
};

struct CaseQuery {
  std::string scope;
  std::string prompt;
  std::vector<float> key = {};  // of the prompt; empty: not known
  std::string not_task = {};    // cases of this task are left out; empty: none are
};

struct CaseRequest {
  Retrieval how = Retrieval::kLexical;
  size_t cases = 8;      // for each member, at most
  uint32_t members = 1;  // of the group
  uint64_t seed = 0;
  bool explore = true;  // kLearned: false takes the best that is known
};

// Belongs to one thread at a time.
class CaseBank {
 public:
  explicit CaseBank(MemoryConfig options) : options_(options) {}

  // Numbers rise from call to call.
  BankChange Apply(uint64_t number, const v1::CaseRecord& record);

  // For each of the members up to `cases` cases, the most useful first. Cases of similar tasks come
  // first, then right ones of other tasks; of several cases that say the same thing (one answer
  // apart from what its prompt says) only the most useful is there. kRandom takes any. The same
  // bank, query and request give the same sets. Only kLearned gives members different sets, besides
  // kRandom.
  std::vector<std::vector<uint64_t>> Choose(const CaseQuery& query,
                                            const CaseRequest& request) const;
  // The case must be there.
  v1::ShownCase Show(uint64_t number) const;
  // The notes on tools in the scope, as a ShownCase without a prompt; nothing: there are none.
  std::string ShowTools(const std::string& scope) const;

  const Case* Find(uint64_t number) const;
  const std::map<uint64_t, Case>& cases() const { return cases_; }
  const CaseValues& values() const { return values_; }
  // SHA-256 over everything the bank holds.
  std::string Digest() const;

 private:
  struct OpenGroup {
    uint32_t members = 0;
    std::map<uint32_t, MemberOutcome> done;
  };
  // The knowledge of a scope.
  struct Scope {
    uint64_t learned = 0;       // records
    uint64_t changed = 0;       // after so many of them something that was right was found to fail
    std::set<uint64_t> solved;  // cases
    std::map<std::string, std::set<uint64_t>> saying;  // cases by what they say, where they do
  };
  void Compare(const v1::CaseRecord& record);
  // Takes away what an earlier record said of the same turn of a session.
  void Replace(const v1::CaseRecord& record);
  void Add(uint64_t number, const v1::CaseRecord& record, uint64_t at,
           std::vector<std::string> words);
  uint64_t NearDuplicate(const v1::CaseRecord& record, const std::vector<std::string>& words) const;
  void MarkOutdated(const v1::CaseRecord& record, uint64_t at);
  bool Tells(const std::string& said) const;
  void ForgetOne(BankChange& change);
  void Drop(uint64_t number);
  double Similarity(const std::vector<std::string>& words, const std::vector<float>& key,
                    const Case& one) const;
  CaseFeatures PairFeatures(const std::vector<std::string>& words, const std::vector<float>& key,
                            const Case& one) const;
  std::vector<uint64_t> Similar(const CaseQuery& query, Retrieval how, size_t most) const;
  std::vector<uint64_t> Others(const CaseQuery& query, bool valid_only) const;
  std::vector<uint64_t> Varied(const std::vector<uint64_t>& ordered, size_t most) const;
  std::vector<std::vector<uint64_t>> AtRandom(const CaseQuery& query,
                                              const CaseRequest& request) const;
  std::vector<std::vector<uint64_t>> ByValue(const CaseQuery& query, const CaseRequest& request,
                                             const std::vector<uint64_t>& known) const;
  double Rarity(const std::string& word) const;

  const MemoryConfig options_;
  std::map<uint64_t, Case> cases_;
  std::map<std::string, Scope> scopes_;
  std::unordered_map<std::string, uint64_t> word_cases_;
  std::unordered_map<std::string, uint64_t> answer_words_;  // of all records, in how many
  uint64_t answers_ = 0;
  LexicalIndex texts_;
  VectorIndex keys_;
  CaseValues values_;
  ToolMemory tools_;
  std::map<uint64_t, OpenGroup> open_;
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> turns_;  // cases by session and turn
};

}  // namespace tidemill
