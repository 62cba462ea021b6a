// The API keys in force: those of a file, read again when it changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/mutex.h"
#include "gateway/api_keys.h"

namespace tidemill {

// Thread-safe. A thread of its own looks at the file.
class KeyFile {
 public:
  // An empty path: the keys stay as they are. A file that cannot be read, or has a mistake in it,
  // changes nothing and is logged once; so does one without any key.
  KeyFile(ApiKeys keys, std::string path,
          std::chrono::milliseconds look_every = std::chrono::seconds(1));
  ~KeyFile();

  // As ApiKeys::Find.
  std::optional<Tenant> Find(std::string_view authorization, std::string_view x_api_key) const;

 private:
  std::shared_ptr<const ApiKeys> Current() const;
  void Watch(std::chrono::milliseconds every);
  void Look();
  // A mark that changes when the file does; empty: it cannot be looked at.
  std::string Mark() const;

  const std::string path_;
  std::string mark_;  // the thread's, of the file as it was read last
  mutable Mutex mutex_;
  CondVar stopped_;
  std::shared_ptr<const ApiKeys> keys_ TM_GUARDED_BY(mutex_);  // shared with those who look up
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tidemill
