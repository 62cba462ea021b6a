// Where messages come in: what a lease holds, read and checked.
#pragma once

#include "bus/bus.h"
#include "core/message_check.h"

namespace tidemill {

// Reads the lease's body by the table of bounds (core/message_check.h). False: it was not such a
// message and is now a dead letter with the reason; nothing else is to be done about it.
inline bool ReadOrReject(Bus& bus, const Lease& lease, google::protobuf::Message& message,
                         const MessageLimits& limits) {
  const Status read = ReadMessage(lease.body, message, limits);
  if (!read.ok()) (void)bus.Reject(lease, read.message());
  return read.ok();
}

}  // namespace tidemill
