// What the routes of the server work on. TinkerServer owns all of it.
#pragma once

#include <map>
#include <string>

#include "core/clock.h"
#include "gateway/tenant.h"
#include "tinker/books.h"
#include "tinker/folders.h"
#include "tinker/model_worker.h"
#include "tinker/op_queue.h"
#include "tinker/polls.h"
#include "tinker/sample_desk.h"
#include "tinker/sample_promises.h"

namespace tidemill {

struct TinkerLimits {
  size_t body_bytes_max = size_t{64} << 20;
  int64_t rank_max = 256;
  size_t living_models_max = 256;                  // of one tenant, in sessions that have not ended
  uint64_t waiting_bytes_max = uint64_t{1} << 30;  // of one model's operations, on the disk
  size_t polls_max = 4096;                         // requests that are held
  Duration poll_for = std::chrono::seconds(30);    // so long is a request held
  Duration results_for = std::chrono::minutes(15);  // so long is a result of an operation kept
  Duration silence_max = std::chrono::hours(1);     // without a heartbeat a session ends
};

struct TinkerParts {
  TinkerLimits limits;
  TinkerFolders folders;
  std::map<std::string, BaseModel> bases;
  const Clock& clock;
  Books& books;
  OpQueue& queue;
  Polls& polls;
  SamplePromises& samples;
  ModelWorker& worker;
  std::map<std::string, SampleDesk*> desks;  // by base

  // A base by any of its names: as the server was told, or its folder. Null: there is none.
  const BaseModel* BaseOf(const std::string& name) const;
};

// What belongs to nobody or to another tenant is not there: kNotFound. kClosed: its session ended.
Result<SessionRow> LivingSession(const TinkerParts& parts, const Tenant& tenant,
                                 const std::string& id);
Result<ModelRow> OwnModel(const TinkerParts& parts, const Tenant& tenant, const std::string& id);
// Also another tenant's, if it was published.
Result<CheckpointRow> ReadableCheckpoint(const TinkerParts& parts, const Tenant& tenant,
                                         const std::string& path);

// Ends the session and removes what it has on the disk, but for checkpoints.
Status EndSession(const TinkerParts& parts, const std::string& session);
Status RemoveCheckpoint(const TinkerParts& parts, const CheckpointRow& checkpoint);

}  // namespace tidemill
