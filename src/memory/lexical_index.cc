#include "memory/lexical_index.h"

#include <algorithm>
#include <set>

#include "core/random.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

constexpr size_t kQueryWordsMax = 64;

// A scope as one word, whatever characters its name has.
std::string ScopeWord(std::string_view scope) {
  return "s" + std::to_string(StableHash(scope));
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

}  // namespace

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool lower = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || byte >= 0x80;
    if (lower || (c >= 'A' && c <= 'Z')) {
      word += lower ? c : static_cast<char>(c - 'A' + 'a');
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> WordSet(std::string_view text) {
  std::vector<std::string> words = WordsOf(text);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

struct LexicalIndex::Impl {
  std::unique_ptr<Database> db;
  std::unique_ptr<Statement> add, remove, search;
};

LexicalIndex::LexicalIndex() : impl_(std::make_unique<Impl>()) {
  auto db = Database::Open(":memory:", {});
  TM_CHECK(db.ok(), db.status().message());
  impl_->db = *std::move(db);
  const Status made = impl_->db->Exec("CREATE VIRTUAL TABLE texts USING fts5(scope, words)");
  TM_CHECK(made.ok(), made.message());
  const auto prepare = [&](const char* sql) {
    auto statement = impl_->db->Prepare(sql);
    TM_CHECK(statement.ok(), statement.status().message());
    return std::make_unique<Statement>(*std::move(statement));
  };
  impl_->add = prepare("INSERT INTO texts (rowid, scope, words) VALUES (?1, ?2, ?3)");
  impl_->remove = prepare("DELETE FROM texts WHERE rowid = ?1");
  // The scope has no weight: it only chooses.
  impl_->search = prepare(
      "SELECT rowid, bm25(texts, 0.0, 1.0) AS rank_of FROM texts WHERE texts MATCH ?1 ORDER BY "
      "rank_of, rowid DESC LIMIT ?2");
}

LexicalIndex::~LexicalIndex() = default;

void LexicalIndex::Add(uint64_t number, std::string_view scope, std::string_view text) {
  const Status added = impl_->add->With(number, ScopeWord(scope), Joined(WordsOf(text))).Run();
  TM_CHECK(added.ok(), added.message());
}

void LexicalIndex::Remove(uint64_t number) {
  const Status removed = impl_->remove->With(number).Run();
  TM_CHECK(removed.ok(), removed.message());
}

std::vector<Match> LexicalIndex::Search(std::string_view scope, std::string_view query,
                                        size_t most) const {
  std::set<std::string> words;
  for (std::string& word : WordsOf(query)) {
    if (words.size() < kQueryWordsMax) words.insert(std::move(word));
  }
  if (words.empty() || most == 0) return {};
  std::string any;
  for (const std::string& word : words) any += (any.empty() ? "\"" : " OR \"") + word + "\"";
  Statement& search =
      impl_->search->With("scope : " + ScopeWord(scope) + " AND words : (" + any + ")", most);
  std::vector<Match> found;
  while (true) {
    auto row = search.Next();
    TM_CHECK(row.ok(), row.status().message());
    if (!*row) return found;
    found.push_back({search.Uint(0), -search.Double(1)});
  }
}

}  // namespace tidemill
