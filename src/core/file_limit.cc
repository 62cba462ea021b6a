#include "core/file_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace tidemill {

size_t RaiseFileLimit(size_t wanted) {
  struct rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  if (files.rlim_cur >= wanted) return files.rlim_cur;
  struct rlimit more = files;
  more.rlim_cur = std::min<rlim_t>(wanted, files.rlim_max);
  return setrlimit(RLIMIT_NOFILE, &more) == 0 ? more.rlim_cur : files.rlim_cur;
}

}  // namespace tidemill
