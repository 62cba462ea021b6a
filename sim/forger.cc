#include "sim/forger.h"

#include <google/protobuf/message.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "core/topics.h"

namespace tidemill::sim {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::unique_ptr<Message> MessageOf(std::string_view topic) {
  const auto ends = [&](std::string_view end) {
    return topic.size() >= end.size() && topic.substr(topic.size() - end.size()) == end;
  };
  if (topic == kTrajectoriesTopic) return std::make_unique<v1::Trajectory>();
  if (topic == kGivenUpTopic) return std::make_unique<v1::GroupGivenUp>();
  if (topic.rfind("tools.cancel.", 0) == 0) return std::make_unique<v1::ToolCancel>();
  if (topic.rfind("tools.", 0) == 0) return std::make_unique<v1::ToolRequest>();
  if (topic.rfind("inbox.", 0) == 0 && ends(".replay")) return std::make_unique<v1::Verdict>();
  if (topic.rfind("inbox.", 0) == 0 && !ends(".learner")) return std::make_unique<v1::ToolResult>();
  return nullptr;
}

struct Place {
  Message* message;
  const FieldDescriptor* field;
};

void PlacesOf(Message& message, std::vector<Place>& places) {
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    places.push_back({&message, field});
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated() && reflection.HasField(message, field)) {
      PlacesOf(*reflection.MutableMessage(&message, field), places);
    }
    for (int k = 0; field->is_repeated() && k < reflection.FieldSize(message, field); ++k)
      PlacesOf(*reflection.MutableRepeatedMessage(&message, field, k), places);
  }
}

uint64_t ForgedInteger(uint64_t value, Random& random) {
  switch (random.Below(5)) {
    case 0:
      return 0;
    case 1:
      return value + 1;
    case 2:
      return std::numeric_limits<uint64_t>::max();
    case 3:
      return random.Below(8);
    default:
      return random.Next();
  }
}

double ForgedNumber(Random& random) {
  const double kinds[] = {std::nan(""), HUGE_VAL, -HUGE_VAL, -1e30, 1e30, 0, random.Normal()};
  return kinds[random.Below(std::size(kinds))];
}

std::string ForgedText(std::string text, Random& random) {
  switch (random.Below(4)) {
    case 0:
      return "";
    case 1:
      return std::string(1 + random.Below(5000), 'x');
    case 2:
      return "../" + text;
    default:
      if (text.empty()) return "forged";
      text[random.Below(text.size())] = 'f';
      return text;
  }
}

void ForgeSingle(Message& message, const FieldDescriptor* field, Random& random) {
  const Reflection& r = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return r.SetBool(&message, field, !r.GetBool(message, field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return r.SetEnumValue(&message, field, static_cast<int>(random.Below(20)));
    case FieldDescriptor::CPPTYPE_INT32:
      return r.SetInt32(&message, field, static_cast<int32_t>(ForgedInteger(1, random)));
    case FieldDescriptor::CPPTYPE_INT64:
      return r.SetInt64(&message, field, static_cast<int64_t>(ForgedInteger(1, random)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return r.SetUInt32(&message, field,
                         static_cast<uint32_t>(ForgedInteger(r.GetUInt32(message, field), random)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return r.SetUInt64(&message, field, ForgedInteger(r.GetUInt64(message, field), random));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return r.SetFloat(&message, field, static_cast<float>(ForgedNumber(random)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return r.SetDouble(&message, field, ForgedNumber(random));
    case FieldDescriptor::CPPTYPE_STRING:
      return r.SetString(&message, field, ForgedText(r.GetString(message, field), random));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return r.ClearField(&message, field);
  }
}

void ForgeRepeated(Message& message, const FieldDescriptor* field, Random& random) {
  const Reflection& r = *message.GetReflection();
  const int size = r.FieldSize(message, field);
  const int index = size == 0 ? 0 : static_cast<int>(random.Below(static_cast<uint64_t>(size)));
  const uint64_t kind = random.Below(3);
  if (size > 0 && kind == 0) return r.RemoveLast(&message, field);
  const bool add = size == 0 || kind == 1;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto value = static_cast<uint32_t>(ForgedInteger(1, random));
      return add ? r.AddUInt32(&message, field, value)
                 : r.SetRepeatedUInt32(&message, field, index, value);
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      const uint64_t value = ForgedInteger(1, random);
      return add ? r.AddUInt64(&message, field, value)
                 : r.SetRepeatedUInt64(&message, field, index, value);
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const auto value = static_cast<float>(ForgedNumber(random));
      return add ? r.AddFloat(&message, field, value)
                 : r.SetRepeatedFloat(&message, field, index, value);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double value = ForgedNumber(random);
      return add ? r.AddDouble(&message, field, value)
                 : r.SetRepeatedDouble(&message, field, index, value);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return r.AddString(&message, field, ForgedText("forged", random));
    default:
      r.AddMessage(&message, field);
  }
}

}  // namespace

uint64_t GroupOfMessage(std::string_view topic, const std::string& body) {
  const std::unique_ptr<Message> message = MessageOf(topic);
  if (message == nullptr || !message->ParseFromString(body)) return 0;
  if (auto* trajectory = dynamic_cast<v1::Trajectory*>(message.get()))
    return trajectory->id().group();
  if (auto* given_up = dynamic_cast<v1::GroupGivenUp*>(message.get())) return given_up->group();
  if (auto* cancel = dynamic_cast<v1::ToolCancel*>(message.get())) return cancel->episode().group();
  if (auto* request = dynamic_cast<v1::ToolRequest*>(message.get()))
    return request->episode().group();
  if (auto* result = dynamic_cast<v1::ToolResult*>(message.get())) return result->episode().group();
  if (auto* verdict = dynamic_cast<v1::Verdict*>(message.get())) return verdict->id().group();
  return 0;
}

uint64_t ForgeryLedger::HashOf(v1::Trajectory trajectory) {
  trajectory.clear_token();
  for (v1::Turn& turn : *trajectory.mutable_turns()) {
    for (v1::VersionRun& run : *turn.mutable_versions()) run.clear_masked();
  }
  return StableHash(trajectory.SerializeAsString());
}

void ForgeryLedger::Honest(const v1::Trajectory& trajectory) {
  const v1::TrajectoryId& id = trajectory.id();
  honest_[{id.group(), id.member()}].insert(HashOf(trajectory));
}

bool ForgeryLedger::IsHonest(const v1::Trajectory& trajectory) const {
  const v1::TrajectoryId& id = trajectory.id();
  auto published = honest_.find({id.group(), id.member()});
  return published != honest_.end() && published->second.count(HashOf(trajectory)) != 0;
}

std::string Forge(std::string_view topic, const std::string& body, Random& random) {
  const std::unique_ptr<Message> message = MessageOf(topic);
  if (message == nullptr || !message->ParseFromString(body)) return body;
  std::vector<Place> places;
  PlacesOf(*message, places);
  const Place& place = places[random.Below(places.size())];
  if (place.field->is_repeated())
    ForgeRepeated(*place.message, place.field, random);
  else
    ForgeSingle(*place.message, place.field, random);
  return message->SerializeAsString();
}

}  // namespace tidemill::sim
