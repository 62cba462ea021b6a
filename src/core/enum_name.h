// The names of the schema's enums as JSON and people see them: OUTCOME_CPU_LIMIT is "cpu_limit".
#pragma once

#include <google/protobuf/generated_enum_reflection.h>

#include <string>

namespace tidemill {

// A value the schema does not know is "unspecified".
std::string EnumName(const google::protobuf::EnumDescriptor& type, int value);

template <typename Enum>
std::string EnumName(Enum value) {
  return EnumName(*google::protobuf::GetEnumDescriptor<Enum>(), static_cast<int>(value));
}

}  // namespace tidemill
