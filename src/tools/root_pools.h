// Boxes with a root file system of a task's: one host and one pool for each, opened when a request
// first asks for it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/mutex.h"
#include "core/status.h"
#include "tools/box/box_host.h"
#include "tools/box/box_pool.h"

namespace tidemill {

// Thread-safe. Boxes must be gone before it is.
class RootPools {
 public:
  // `usual` serves requests without a root and must outlive it. `like` is what further hosts are
  // made from.
  RootPools(BoxPool& usual, BoxHostOptions like, std::string roots)
      : usual_(usual), like_(std::move(like)), roots_(std::move(roots)) {}

  // kUnavailable: the root is not on this machine, or no box can run with it.
  Result<BoxPool*> Of(const std::string& root);

 private:
  struct Rooted {
    std::unique_ptr<BoxHost> host;
    std::unique_ptr<BoxPool> pool;
  };

  BoxPool& usual_;
  const BoxHostOptions like_;
  const std::string roots_;
  Mutex mutex_;
  std::map<std::string, Rooted> rooted_ TM_GUARDED_BY(mutex_);  // by hash
};

}  // namespace tidemill
