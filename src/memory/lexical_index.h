// Finds texts that share words with a query: BM25 of SQLite's FTS5, in a database in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct Match {
  uint64_t number = 0;
  double score = 0;  // larger is nearer
};

// The words of a text: runs of letters and digits, lower case. What is not ASCII counts as letters.
std::vector<std::string> WordsOf(std::string_view text);
// The same, each once and sorted.
std::vector<std::string> WordSet(std::string_view text);

// Belongs to one thread at a time.
class LexicalIndex {
 public:
  LexicalIndex();
  ~LexicalIndex();

  // A text of a scope; the number must be new.
  void Add(uint64_t number, std::string_view scope, std::string_view text);
  void Remove(uint64_t number);
  // Those of the scope that share a word with the query, the best first; of equal ones the newer
  // (larger) number first.
  std::vector<Match> Search(std::string_view scope, std::string_view query, size_t most) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
