// The functions that the program runs on a Redis server, as one library that the server keeps. Its
// name is a hash of its text: programs of two versions use two libraries side by side. Who may not
// load it (a worker with a user of its own) uses what the learner loaded.
#pragma once

#include <string>
#include <string_view>

#include "bus/redis/redis_connection.h"
#include "core/status.h"

namespace tidemill {

enum class RedisFunction {
  kBatch,
  kRoom,
  kTick,
  kTopics,
  kDepths,
  kDelayed,
  kLetter,
  kBeat,
  kWorkers,
  kPurge,
  kCut,
  kBodies
};

// The name for FCALL on the server.
const std::string& RedisFunctionName(RedisFunction function);
// "FCALL", or "FCALL_RO" for one that only reads.
std::string_view RedisFunctionCommand(RedisFunction function);
// The source for FUNCTION LOAD.
const std::string& RedisLibraryText();

// Ok as well where it is loaded already and where this user may not. kUnavailable: anything else.
Status LoadRedisLibrary(RedisConnection& connection, Duration timeout);

// Whether an error reply says that the library is not there.
bool IsFunctionMissing(std::string_view error);

}  // namespace tidemill
