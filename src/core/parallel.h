// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

#include "core/status.h"

namespace tidemill {

// Runs work(0) .. work(pieces - 1) on at most `threads` threads, the caller's among them, and
// returns when all are done. Which thread takes which piece is left to chance. After a failure no
// new piece is begun; the failure of the lowest piece that failed is returned. `work` must not
// throw.
Status InParallel(size_t pieces, int threads, const std::function<Status(size_t piece)>& work);

}  // namespace tidemill
