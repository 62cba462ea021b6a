// A version of the weights on its way to servers.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "engine/remote/server_dialect.h"

namespace tidemill {

// Never changed after it was made; its files go with the last pointer to it. Shared: several
// servers take it at once.
class PreparedVersion {
 public:
  PreparedVersion(WeightFiles files, Canary canary, std::function<void()> discard)
      : files_(std::move(files)), canary_(std::move(canary)), discard_(std::move(discard)) {}
  ~PreparedVersion() {
    if (discard_) discard_();
  }
  PreparedVersion(const PreparedVersion&) = delete;

  uint64_t version() const { return files_.version; }
  const WeightFiles& files() const { return files_; }
  const Canary& canary() const { return canary_; }

 private:
  const WeightFiles files_;
  const Canary canary_;
  const std::function<void()> discard_;
};

using VersionPointer = std::shared_ptr<const PreparedVersion>;

}  // namespace tidemill
