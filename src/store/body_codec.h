// How messages are kept in the database: their bytes as one zstd frame with its checksum, so that
// damage is noticed when they are read.
#pragma once

#include <google/protobuf/message_lite.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// Largest message kept, before compression.
inline constexpr size_t kBodyBytesMax = size_t{256} << 20;

// Belongs to one thread at a time: it reuses its memory.
class BodyCodec {
 public:
  BodyCodec();
  ~BodyCodec();

  // kInvalid: larger than kBodyBytesMax.
  Result<std::string> Pack(const google::protobuf::MessageLite& message);
  // kCorrupt: not what Pack made; `message` is then in an unspecified state.
  Status Unpack(std::string_view packed, google::protobuf::MessageLite& message);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
  std::string plain_;  // kept for its memory
};

}  // namespace tidemill
