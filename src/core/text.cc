#include "core/text.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <vector>

namespace tidemill {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the valid UTF-8 sequence `bytes` starts with; 0: none.
size_t SequenceLength(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  // Too long for what they say, surrogates, beyond the last character.
  if (first == 0xE0 && at(1) < 0xA0) return 0;
  if (first == 0xED && at(1) > 0x9F) return 0;
  if (first == 0xF0 && at(1) < 0x90) return 0;
  if (first == 0xF4 && at(1) > 0x8F) return 0;
  return length;
}

// Of a valid sequence.
uint32_t CodePoint(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first;
  uint32_t character = first & (0xFFu >> (sequence.size() + 1));
  for (const char c : sequence.substr(1)) {
    character = (character << 6) | (static_cast<unsigned char>(c) & 0x3Fu);
  }
  return character;
}

void MakeReadable(Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  for (int i = 0; i < count; ++i) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      tidemill::MakeReadable(field.is_repeated()
                                 ? *reflection.MutableRepeatedMessage(&message, &field, i)
                                 : *reflection.MutableMessage(&message, &field));
      continue;
    }
    std::string scratch;
    const std::string& text =
        field.is_repeated() ? reflection.GetRepeatedStringReference(message, &field, i, &scratch)
                            : reflection.GetStringReference(message, &field, &scratch);
    if (IsUtf8(text)) continue;
    if (field.is_repeated()) {
      reflection.SetRepeatedString(&message, &field, i, ToUtf8(text));
    } else {
      reflection.SetString(&message, &field, ToUtf8(text));
    }
  }
}

}  // namespace

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = SequenceLength(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string ToUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = SequenceLength(bytes);
    if (length == 0 || bytes[0] == '\0') {
      text += kReplacement;
      bytes.remove_prefix(1);
    } else {
      text.append(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }
  return text;
}

std::string ForTerminal(std::string_view bytes) {
  const std::string text = ToUtf8(bytes);
  std::string shown;
  shown.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(std::string_view(text).substr(at));
    const uint32_t character = CodePoint(std::string_view(text).substr(at, length));
    const bool control = (character < 0x20 && character != '\n' && character != '\t') ||
                         (character >= 0x7F && character < 0xA0);
    const bool turns = (character >= 0x202A && character <= 0x202E) ||
                       (character >= 0x2066 && character <= 0x2069);
    if (control || turns) {
      shown += fmt::format("\\u{:04x}", character);
    } else {
      shown.append(text, at, length);
    }
    at += length;
  }
  return shown;
}

std::string Beginning(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return ToUtf8(text);
  const auto continues = [&](size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  size_t end = bytes;  // at most three back: a character has four bytes, what is longer is none
  while (end > 0 && bytes - end < 3 && continues(end)) --end;
  return ToUtf8(text.substr(0, end)) + "..";
}

void MakeReadable(Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ||
        field->type() == FieldDescriptor::TYPE_STRING) {
      MakeReadable(message, *field);
    }
  }
}

}  // namespace tidemill
