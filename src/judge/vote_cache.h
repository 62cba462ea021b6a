// The votes that judges gave, by what was asked: a question that was answered is not paid for
// again. An entry knows the sessions whose text it was made from, so that deleting a session
// reaches it.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "core/mutex.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// Thread-safe: a loop uses it, and whoever deletes sessions. The entry used longest ago leaves
// first.
class VoteCache {
 public:
  explicit VoteCache(size_t capacity) : capacity_(capacity) {}

  // `session` joins those that the entry was used by; empty: nobody's.
  std::optional<v1::JudgeVote> Find(const std::string& key, const std::string& session);
  void Put(const std::string& key, const std::string& session, v1::JudgeVote vote);
  // Removes every entry the session has used. Returns how many those were. What is being judged
  // meanwhile is not kept either.
  size_t EraseSession(const std::string& session);
  size_t size() const;

 private:
  struct Entry {
    v1::JudgeVote vote;
    std::set<std::string> sessions;
    std::list<std::string>::iterator used;
  };
  using Entries = std::unordered_map<std::string, Entry>;
  void Erase(Entries::iterator entry) TM_REQUIRES(mutex_);
  void NoteSession(Entry& entry, const std::string& key, const std::string& session)
      TM_REQUIRES(mutex_);

  const size_t capacity_;
  mutable Mutex mutex_;
  Entries entries_ TM_GUARDED_BY(mutex_);
  std::list<std::string> order_ TM_GUARDED_BY(mutex_);  // the newest use first
  std::map<std::string, std::set<std::string>> keys_of_ TM_GUARDED_BY(mutex_);  // by session
  std::set<std::string> erased_ TM_GUARDED_BY(mutex_);  // sessions that are never kept again
};

// The caches of all judges of a process. Thread-safe. It outlives the loop that fills it, so that a
// deletion always finds it.
class VoteCaches {
 public:
  // That of a judge, made on first use. It stays where it is.
  VoteCache& Of(const std::string& judge, size_t capacity);
  // As VoteCache's, of all of them.
  size_t EraseSession(const std::string& session);

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<VoteCache>> caches_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
