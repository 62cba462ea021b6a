// Text that may come from anywhere: programs' output, answers of commands, names on a disk.
// Messages carry UTF-8 alone: one whose strings hold anything else cannot be read by who gets it.
#pragma once

#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace tidemill {

bool IsUtf8(std::string_view bytes);

// Bytes that are no valid UTF-8 become U+FFFD; NULs too, because programs that read JSON choke on
// them.
std::string ToUtf8(std::string_view bytes);

// For an error that shows what it is about: at most `bytes` of the text as UTF-8, no part of a
// character, and ".." behind it where something was cut.
std::string Beginning(std::string_view text, size_t bytes);

// What people see on a terminal, which obeys control characters: as UTF-8, with every one but line
// ends and tabs written as \u001b, those of the upper range and the marks that turn the direction
// of writing included.
std::string ForTerminal(std::string_view bytes);

// ToUtf8 for every string of a message, those of the messages in it included, that needs it. What
// is declared as bytes stays.
void MakeReadable(google::protobuf::Message& message);

}  // namespace tidemill
