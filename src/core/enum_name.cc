#include "core/enum_name.h"

#include <google/protobuf/descriptor.h>

#include <cctype>

namespace tidemill {

std::string EnumName(const google::protobuf::EnumDescriptor& type, int value) {
  const auto* named = type.FindValueByNumber(value);
  const std::string zero = type.FindValueByNumber(0)->name();
  const size_t prefix = zero.rfind("UNSPECIFIED");  // the first of each enum is PREFIX_UNSPECIFIED
  std::string name = (named == nullptr ? zero : named->name()).substr(prefix);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace tidemill
