// Large bodies by the hash of their content. The same content is kept once; a blob never changes.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// Thread-safe. May touch a disk: for ports, not for loops.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  // Returns the lower-case hex SHA-256 under which Get finds it. Durable only where the
  // implementation says so. Putting what is there already is cheap and fine.
  virtual Result<std::string> Put(std::string_view content) = 0;
  // kNotFound: no such blob. kCorrupt: what is stored does not have this hash.
  virtual Result<std::string> Get(std::string_view hash) = 0;
};

}  // namespace tidemill
