#include "core/message_check.h"

#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/message_rules.h"
#include "core/paths.h"
#include "core/text.h"
#include "core/token_experts.h"
#include "core/token_support.h"
#include "proto/session.pb.h"
#include "proto/skills.pb.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = FieldRule::Kind;

struct BoundField {
  const FieldDescriptor* field;
  const FieldRule* rule;
};
using RulesByType = std::unordered_map<const Descriptor*, std::vector<BoundField>>;

void AddRulesOf(const Descriptor& type, RulesByType& types) {
  std::vector<BoundField>& fields = types[&type];
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    const std::string name = type.name() + "." + field->name();
    const auto rules = MessageRules();
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const FieldRule& one) { return one.field == name; });
    TM_CHECK(rule != rules.end(), "message_rules.cc has no row for " + name);
    TM_CHECK(field->is_repeated() == (rule->count != nullptr), "a count is missing for " + name);
    fields.push_back({field, &*rule});
  }
  for (int i = 0; i < type.nested_type_count(); ++i) AddRulesOf(*type.nested_type(i), types);
}

const std::vector<BoundField>& RulesOf(const Descriptor& type) {
  static const RulesByType types = [] {
    RulesByType all;
    for (const auto* file : {v1::Task::descriptor()->file(), v1::Session::descriptor()->file(),
                             v1::SkillLesson::descriptor()->file()}) {
      for (int i = 0; i < file->message_type_count(); ++i) AddRulesOf(*file->message_type(i), all);
    }
    return all;
  }();
  return types.at(&type);
}

std::string Shown(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", number);
  return text;
}

Status CheckNumber(double value, const FieldRule& rule, const MessageLimits& limits) {
  double high = rule.high;
  if (rule.limit != nullptr) {
    high = static_cast<double>(limits.*rule.limit) - (rule.below ? 1 : 0);
  }
  if (value >= rule.low && value <= high) return Ok();  // NaN is neither
  return Invalid(Shown(value) + " is not between " + Shown(rule.low) + " and " + Shown(high));
}

bool IsTopicName(const std::string& text) {
  return text.size() <= 200 && std::all_of(text.begin(), text.end(),
                                           [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

bool IsSha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Status CheckText(const std::string& text, const FieldRule& rule, const MessageLimits& limits) {
  if (text.empty()) return rule.needed ? Invalid("must not be empty") : Ok();
  switch (rule.kind) {
    case Kind::kPath:
      return CheckPath(text);
    case Kind::kHash:
      return IsSha256(text) ? Ok() : Invalid("\"" + Beginning(text, 80) + "\" is no SHA-256");
    case Kind::kTopic:
      return IsTopicName(text) ? Ok() : Invalid("\"" + Beginning(text, 80) + "\" names no topic");
    default:
      break;
  }
  const uint64_t most =
      rule.limit != nullptr ? limits.*rule.limit : static_cast<uint64_t>(rule.high);
  if (text.size() <= most) return Ok();
  return Invalid("has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(most) +
                 " are allowed");
}

double AsNumber(const Message& message, const Reflection& reflection,
                const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(reflection.GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(reflection.GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetFloat(message, field);
    default:
      throw std::logic_error(field->full_name() + " is no number");
  }
}

Status CheckSingle(const Message& message, const BoundField& bound, const MessageLimits& limits) {
  const Reflection& reflection = *message.GetReflection();
  const auto& [field, rule] = bound;
  switch (rule->kind) {
    case Kind::kFlag:
      return Ok();
    case Kind::kPart:
      if (!reflection.HasField(message, field)) {
        return rule->needed ? Invalid("is missing") : Ok();
      }
      return CheckMessage(reflection.GetMessage(message, field), limits);
    case Kind::kEnum: {
      const int value = reflection.GetEnumValue(message, field);
      if (field->enum_type()->FindValueByNumber(value) == nullptr) {
        return Invalid("has no value " + std::to_string(value));
      }
      return rule->needed && value == 0 ? Invalid("is not said") : Ok();
    }
    case Kind::kNumber:
      return CheckNumber(AsNumber(message, reflection, field), *rule, limits);
    default: {
      std::string scratch;
      return CheckText(reflection.GetStringReference(message, field, &scratch), *rule, limits);
    }
  }
}

template <typename T>
Status CheckNumbers(const Message& message, const BoundField& bound, const MessageLimits& limits) {
  const auto values = message.GetReflection()->GetRepeatedFieldRef<T>(message, bound.field);
  for (int i = 0; i < values.size(); ++i) {
    const Status checked = CheckNumber(static_cast<double>(values.Get(i)), *bound.rule, limits);
    if (!checked.ok()) return Invalid("[" + std::to_string(i) + "]: " + checked.message());
  }
  return Ok();
}

// "[3]: why", or "[3].field: why" where the element is a message.
Status AtIndex(const Status& status, int index, bool part) {
  if (status.ok()) return status;
  return Invalid("[" + std::to_string(index) + "]" + (part ? "." : ": ") + status.message());
}

Status CheckRepeated(const Message& message, const BoundField& bound, const MessageLimits& limits) {
  const Reflection& reflection = *message.GetReflection();
  const auto& [field, rule] = bound;
  const int size = reflection.FieldSize(message, field);
  if (static_cast<uint64_t>(size) > limits.*rule->count) {
    return Invalid(": has " + std::to_string(size) + " entries, at most " +
                   std::to_string(limits.*rule->count) + " are allowed");
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return CheckNumbers<uint32_t>(message, bound, limits);
    case FieldDescriptor::CPPTYPE_UINT64:
      return CheckNumbers<uint64_t>(message, bound, limits);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return CheckNumbers<float>(message, bound, limits);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CheckNumbers<double>(message, bound, limits);
    case FieldDescriptor::CPPTYPE_STRING:
      for (int i = 0; i < size; ++i) {
        std::string scratch;
        TM_RETURN_IF_ERROR(
            AtIndex(CheckText(reflection.GetRepeatedStringReference(message, field, i, &scratch),
                              *rule, limits),
                    i, false));
      }
      return Ok();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      for (int i = 0; i < size; ++i) {
        TM_RETURN_IF_ERROR(AtIndex(
            CheckMessage(reflection.GetRepeatedMessage(message, field, i), limits), i, true));
      }
      return Ok();
    default:
      throw std::logic_error(field->full_name() + ": no rule checks a list of this type");
  }
}

Status CheckTests(uint32_t passed, uint32_t total) {
  if (passed <= total) return Ok();
  return Invalid("tests_passed: " + std::to_string(passed) + " of " + std::to_string(total));
}

Status CheckTurn(const v1::Turn& turn, const MessageLimits& limits) {
  const auto ids = static_cast<uint64_t>(turn.ids_size());
  if (turn.logprobs_size() != turn.ids_size()) {
    return Invalid("logprobs: " + std::to_string(turn.logprobs_size()) + " for " +
                   std::to_string(ids) + " ids");
  }
  uint64_t versioned = 0;
  for (const v1::VersionRun& run : turn.versions()) versioned += run.tokens();
  if (versioned != ids) {
    return Invalid("versions: of " + std::to_string(versioned) + " tokens for " +
                   std::to_string(ids) + " ids");
  }
  if (turn.has_experts()) TM_RETURN_IF_ERROR(CheckExperts(turn.experts(), limits.tokens));
  if (!turn.has_supports()) return Ok();
  return CheckSupports(turn.supports(), {turn.ids().data(), ids},
                       static_cast<int64_t>(limits.vocabulary));
}

Status CheckTrajectory(const v1::Trajectory& trajectory, const MessageLimits& limits) {
  if (trajectory.id().member() >= trajectory.group_members()) {
    return Invalid("id.member: " + std::to_string(trajectory.id().member()) + " of a group of " +
                   std::to_string(trajectory.group_members()));
  }
  // One of which a part of ours failed is kept as it is and never trained on.
  if (trajectory.end() == v1::EPISODE_END_GIVEN_UP) return Ok();
  // An agent that asked nothing has neither.
  if (trajectory.prompt_ids_size() == 0 && trajectory.turns_size() > 0) {
    return Invalid("prompt_ids: must not be empty");
  }
  auto tokens = static_cast<uint64_t>(trajectory.prompt_ids_size());  // of the longest branch
  std::map<std::string_view, uint64_t> roles;                         // each goes on in its own
  for (const v1::Turn& turn : trajectory.turns()) {
    uint64_t& now = roles.try_emplace(turn.role(), trajectory.prompt_ids_size()).first->second;
    if (turn.prompt_ids_size() > 0) now = static_cast<uint64_t>(turn.prompt_ids_size());
    now +=
        static_cast<uint64_t>(turn.ids_size()) + static_cast<uint64_t>(turn.observation_ids_size());
    tokens = std::max(tokens, now);
  }
  if (tokens > limits.tokens) {
    return Invalid("turns: " + std::to_string(tokens) + " tokens in all, at most " +
                   std::to_string(limits.tokens) + " are allowed");
  }
  if (trajectory.purpose() != v1::PURPOSE_EVAL && !(trajectory.sampling().temperature() >= 1e-3)) {
    return Invalid("sampling.temperature: " + Shown(trajectory.sampling().temperature()) +
                   " is below 0.001, which training needs");
  }
  return Ok();
}

// Rules over several fields.
Status CheckTogether(const Message& message, const MessageLimits& limits) {
  const Descriptor* type = message.GetDescriptor();
  if (type == v1::Turn::descriptor()) {
    return CheckTurn(static_cast<const v1::Turn&>(message), limits);
  }
  if (type == v1::Trajectory::descriptor()) {
    return CheckTrajectory(static_cast<const v1::Trajectory&>(message), limits);
  }
  if (type == v1::Verdict::descriptor()) {
    const auto& verdict = static_cast<const v1::Verdict&>(message);
    return CheckTests(verdict.tests_passed(), verdict.tests_total());
  }
  if (type == v1::ToolResult::descriptor()) {
    const auto& result = static_cast<const v1::ToolResult&>(message);
    return CheckTests(result.tests_passed(), result.tests_total());
  }
  if (type == v1::ToolCall::descriptor()) {
    const auto& call = static_cast<const v1::ToolCall&>(message);
    return CheckTests(call.tests_passed(), call.tests_total());
  }
  if (type == v1::BatchRequest::descriptor()) {
    const auto& request = static_cast<const v1::BatchRequest&>(message);
    return uint64_t{request.episodes()} + request.live_episodes() > 0
               ? Ok()
               : Invalid("episodes: must be at least 1, or live_episodes");
  }
  for (int i = 0; i < type->oneof_decl_count(); ++i) {
    if (message.GetReflection()->HasOneof(message, type->oneof_decl(i))) continue;
    return Invalid(type->oneof_decl(i)->name() + ": is missing");
  }
  return Ok();
}

}  // namespace

Status CheckMessage(const Message& message, const MessageLimits& limits) {
  for (const BoundField& bound : RulesOf(*message.GetDescriptor())) {
    const bool repeated = bound.field->is_repeated();
    const Status checked =
        repeated ? CheckRepeated(message, bound, limits) : CheckSingle(message, bound, limits);
    if (checked.ok()) continue;
    const bool part = bound.rule->kind == Kind::kPart;
    const bool inside =
        part && !repeated && message.GetReflection()->HasField(message, bound.field);
    return Invalid(bound.field->name() + (repeated ? "" : inside ? "." : ": ") + checked.message());
  }
  return CheckTogether(message, limits);
}

Status ParseMessage(std::string_view bytes, Message& message, const MessageLimits& limits) {
  const std::string& type = message.GetDescriptor()->name();
  if (bytes.size() > limits.body_bytes) {
    return Invalid(type + ": " + std::to_string(bytes.size()) + " bytes, at most " +
                   std::to_string(limits.body_bytes) + " are allowed");
  }
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return Ok();
  return Invalid("not a " + type);
}

Status ReadMessage(std::string_view bytes, Message& message, const MessageLimits& limits) {
  TM_RETURN_IF_ERROR(ParseMessage(bytes, message, limits));
  const Status checked = CheckMessage(message, limits);
  if (checked.ok()) return checked;
  return Invalid(message.GetDescriptor()->name() + "." + checked.message());
}

}  // namespace tidemill
