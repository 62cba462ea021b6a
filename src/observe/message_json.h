// Any message of the schema as JSON for people, by reflection: bytes that are text are shown as
// text, others as base64.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"

namespace google::protobuf {
class Message;
}

namespace tidemill {

nlohmann::ordered_json MessageJson(const google::protobuf::Message& message);

// The message type of a topic, by the topic's name: "ToolRequest" for "tools.compile"; empty where
// it cannot be known.
std::string MessageOfTopic(std::string_view topic);

// The bytes of a message of `topic`, as JSON. kCorrupt: they are not what the topic carries.
Result<nlohmann::ordered_json> DecodeMessage(std::string_view topic, std::string_view bytes);

}  // namespace tidemill
