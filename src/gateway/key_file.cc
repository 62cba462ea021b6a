#include "gateway/key_file.h"

#include <sys/stat.h>

#include <utility>

#include "core/log.h"

namespace tidemill {

KeyFile::KeyFile(ApiKeys keys, std::string path, std::chrono::milliseconds look_every)
    : path_(std::move(path)), keys_(std::make_shared<const ApiKeys>(std::move(keys))) {
  // What was read before this may be older than the file: the thread reads it once more.
  if (!path_.empty()) thread_ = std::thread([this, look_every] { Watch(look_every); });
}

KeyFile::~KeyFile() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const ApiKeys> KeyFile::Current() const {
  MutexLock lock(mutex_);
  return keys_;
}

std::optional<Tenant> KeyFile::Find(std::string_view authorization,
                                    std::string_view x_api_key) const {
  const std::shared_ptr<const ApiKeys> keys = Current();
  const Tenant* tenant = keys->Find(authorization, x_api_key);
  return tenant != nullptr ? std::optional(*tenant) : std::nullopt;
}

void KeyFile::Watch(std::chrono::milliseconds every) {
  while (true) {
    Look();
    MutexLock lock(mutex_);
    if (stopped_.WaitFor(lock, every, [this]() TM_REQUIRES(mutex_) { return stop_; })) return;
  }
}

std::string KeyFile::Mark() const {
  struct stat file = {};
  if (stat(path_.c_str(), &file) != 0) return "";
  return std::to_string(file.st_ino) + " " + std::to_string(file.st_size) + " " +
         std::to_string(file.st_mtim.tv_sec) + "." + std::to_string(file.st_mtim.tv_nsec);
}

void KeyFile::Look() {
  std::string mark = Mark();
  if (mark == mark_) return;
  const bool first = mark_.empty();
  mark_ = std::move(mark);
  Result<ApiKeys> keys = ApiKeys::Read(path_);
  if (!keys.ok()) {
    LogWarn("the key file cannot be used; the keys read before stay in force",
            {{"reason", keys.status().message()}});
    return;
  }
  if (!first) {
    LogInfo("read the key file again", {{"file", path_}, {"tenants", keys->tenants().size()}});
  }
  auto fresh = std::make_shared<const ApiKeys>(std::move(*keys));
  MutexLock lock(mutex_);
  keys_ = std::move(fresh);
}

}  // namespace tidemill
