// Objects on the run's Redis, in pieces: for what workers on other hosts need and no shared folder
// has. The server holds them in its memory.
//
//   {RUN}:object:NAME      a small object; or "pieces N" of a large one
//   {RUN}:object:NAME:I    its pieces
//
// Nobody's objects stay for longer than a day after they were written.
#pragma once

#include <memory>
#include <string>

#include "bus/redis/redis_client.h"
#include "core/object_place.h"

namespace tidemill {

// kInvalid: the URL or the run's name is wrong. Reading goes on after a lost connection, from the
// piece that was missed.
Result<std::unique_ptr<ObjectPlace>> ConnectRedisPlace(const std::string& url,
                                                       const std::string& run);

}  // namespace tidemill
