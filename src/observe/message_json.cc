#include "observe/message_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <openssl/evp.h>

#include "core/text.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

constexpr int kOnly = -1;  // the place of a field that is not repeated

bool IsText(const std::string& bytes) {
  for (const unsigned char c : bytes) {
    if (c < 0x20 && c != '\n' && c != '\t' && c != '\r') return false;
  }
  return IsUtf8(bytes);
}

Json BytesJson(const std::string& bytes) {
  if (IsText(bytes)) return bytes;
  std::string base64(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  base64.resize(static_cast<size_t>(length));
  return Json{{"base64", base64}};
}

// Calls the getter for one value or for the `at`-th of several.
#define TM_FIELD(Type) \
  (at == kOnly ? r.Get##Type(message, field) : r.GetRepeated##Type(message, field, at))

Json ValueJson(const Message& message, const FieldDescriptor* field, int at) {
  const Reflection& r = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return TM_FIELD(Int32);
    case FieldDescriptor::CPPTYPE_INT64:
      return TM_FIELD(Int64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return TM_FIELD(UInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return TM_FIELD(UInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return TM_FIELD(Double);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return TM_FIELD(Float);
    case FieldDescriptor::CPPTYPE_BOOL:
      return TM_FIELD(Bool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return TM_FIELD(Enum)->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return BytesJson(TM_FIELD(String));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageJson(TM_FIELD(Message));
  }
  return nullptr;
}
#undef TM_FIELD

Json MapJson(const Message& message, const FieldDescriptor* field) {
  const Reflection& r = *message.GetReflection();
  Json json = Json::object();
  for (int i = 0; i < r.FieldSize(message, field); ++i) {
    const Message& entry = r.GetRepeatedMessage(message, field, i);
    const Json key = ValueJson(entry, entry.GetDescriptor()->map_key(), kOnly);
    json[key.is_string() ? key.get<std::string>() : key.dump()] =
        ValueJson(entry, entry.GetDescriptor()->map_value(), kOnly);
  }
  return json;
}

}  // namespace

Json MessageJson(const Message& message) {
  const Reflection& r = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r.ListFields(message, &fields);
  Json json = Json::object();
  for (const FieldDescriptor* field : fields) {
    Json& value = json[field->name()];
    if (field->is_map()) {
      value = MapJson(message, field);
    } else if (field->is_repeated()) {
      value = Json::array();
      for (int i = 0; i < r.FieldSize(message, field); ++i) {
        value.push_back(ValueJson(message, field, i));
      }
    } else {
      value = ValueJson(message, field, kOnly);
    }
  }
  return json;
}

std::string MessageOfTopic(std::string_view topic) {
  for (const TopicRow& row : kTopics) {
    if (row.name == topic) return std::string(row.message);
  }
  if (topic.starts_with(ToolCancelTopic(""))) return "ToolCancel";
  if (topic.starts_with(ToolBoxTopic(""))) return "ToolRequest";
  if (topic.starts_with("inbox.")) {
    if (topic.ends_with(".rollout") || topic.ends_with(".reward")) return "ToolResult";
    if (topic.ends_with(".replay")) return "Verdict";
    if (topic.ends_with(".learner")) return "Batch";
  }
  return "";
}

Result<Json> DecodeMessage(std::string_view topic, std::string_view bytes) {
  const std::string name = MessageOfTopic(topic);
  if (name.empty())
    return NotFound("unknown message type of topic " + std::string(topic) + " carries");
  const auto* type = v1::Task::descriptor()->file()->FindMessageTypeByName(name);
  TM_CHECK(type != nullptr, "a topic carries a message that is not in the schema");
  const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(type);
  std::unique_ptr<Message> message(prototype->New());
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Corrupt("the " + std::to_string(bytes.size()) + " bytes are not a " + name);
  }
  return MessageJson(*message);
}

}  // namespace tidemill
