#include "judge/vote_cache.h"

namespace tidemill {

void VoteCache::NoteSession(Entry& entry, const std::string& key, const std::string& session) {
  if (session.empty()) return;
  entry.sessions.insert(session);
  keys_of_[session].insert(key);
}

std::optional<v1::JudgeVote> VoteCache::Find(const std::string& key, const std::string& session) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return {};
  order_.splice(order_.begin(), order_, it->second.used);
  NoteSession(it->second, key, session);
  return it->second.vote;
}

void VoteCache::Put(const std::string& key, const std::string& session, v1::JudgeVote vote) {
  MutexLock lock(mutex_);
  if (capacity_ == 0 || erased_.count(session) != 0) return;
  auto [it, added] = entries_.try_emplace(key);
  if (added) it->second.used = order_.insert(order_.begin(), key);
  it->second.vote = std::move(vote);
  NoteSession(it->second, key, session);
  while (entries_.size() > capacity_) Erase(entries_.find(order_.back()));
}

void VoteCache::Erase(Entries::iterator entry) {
  for (const std::string& session : entry->second.sessions) {
    const auto keys = keys_of_.find(session);
    if (keys == keys_of_.end()) continue;
    keys->second.erase(entry->first);
    if (keys->second.empty()) keys_of_.erase(keys);
  }
  order_.erase(entry->second.used);
  entries_.erase(entry);
}

size_t VoteCache::EraseSession(const std::string& session) {
  MutexLock lock(mutex_);
  erased_.insert(session);
  const auto keys = keys_of_.find(session);
  if (keys == keys_of_.end()) return 0;
  const std::set<std::string> all = keys->second;
  for (const std::string& key : all) Erase(entries_.find(key));
  return all.size();
}

size_t VoteCache::size() const {
  MutexLock lock(mutex_);
  return entries_.size();
}

VoteCache& VoteCaches::Of(const std::string& judge, size_t capacity) {
  MutexLock lock(mutex_);
  std::unique_ptr<VoteCache>& cache = caches_[judge];
  if (cache == nullptr) cache = std::make_unique<VoteCache>(capacity);
  return *cache;
}

size_t VoteCaches::EraseSession(const std::string& session) {
  MutexLock lock(mutex_);
  size_t erased = 0;
  for (const auto& [judge, cache] : caches_) erased += cache->EraseSession(session);
  return erased;
}

}  // namespace tidemill
