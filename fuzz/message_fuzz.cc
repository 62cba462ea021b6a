// A message of any topic, as a loop reads it: the first byte chooses which. What the table lets
// through must be able to be read again.
#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "core/group_token.h"
#include "core/message_check.h"
#include "proto/session.pb.h"
#include "proto/skills.pb.h"
#include "proto/tidemill.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  if (size == 0) return 0;
  std::vector<const google::protobuf::Descriptor*> types;
  for (const auto* file : {v1::Task::descriptor()->file(), v1::Session::descriptor()->file(),
                           v1::SkillLesson::descriptor()->file()}) {
    for (int i = 0; i < file->message_type_count(); ++i) types.push_back(file->message_type(i));
  }
  const auto* type = types[data[0] % types.size()];
  const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(type);
  const std::unique_ptr<google::protobuf::Message> message(prototype->New());
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const MessageLimits limits{.members = 8, .vocabulary = 1000, .tokens = 4096, .turns = 16};
  if (!ReadMessage(bytes, *message, limits).ok()) return 0;
  if (auto* trajectory = dynamic_cast<v1::Trajectory*>(message.get())) {
    (void)GroupToken("secret", *trajectory);
    for (const v1::Turn& turn : trajectory->turns()) {
      if (turn.logprobs_size() != turn.ids_size()) std::abort();
      for (float logprob : turn.logprobs()) {
        if (!(logprob >= -50 && logprob <= 1)) std::abort();
      }
    }
  }
  const std::unique_ptr<google::protobuf::Message> again(prototype->New());
  if (!ReadMessage(message->SerializeAsString(), *again, limits).ok()) std::abort();
  return 0;
}
