#include "tools/root_pools.h"

#include "tasks/root_fs.h"

namespace tidemill {

Result<BoxPool*> RootPools::Of(const std::string& root) {
  if (root.empty()) return &usual_;
  const MutexLock lock(mutex_);
  if (const auto found = rooted_.find(root); found != rooted_.end())
    return found->second.pool.get();
  const auto place = FindRoot(root, RootsFolder(roots_));
  if (!place.ok()) return Unavailable(place.status().message());
  BoxHostOptions options = like_;
  options.root = place->folder;
  options.environment.insert(options.environment.end(), place->environment.begin(),
                             place->environment.end());
  TM_ASSIGN_OR_RETURN(std::unique_ptr<BoxHost> host, BoxHost::Create(std::move(options)));
  Rooted& rooted = rooted_[root];
  rooted.host = std::move(host);
  rooted.pool = std::make_unique<BoxPool>(*rooted.host, 1);
  return rooted.pool.get();
}

}  // namespace tidemill
