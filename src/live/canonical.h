// When two messages are the same to us although a client wrote them differently. Clients write our
// own answers anew: arguments with other spaces, escapes and key order, ids altered, reasoning
// dropped, white space gained or lost at an end. Requests come here already in the form of
// gateway/chat_request.h, in which null, missing and empty content are one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/chat_request.h"

namespace tidemill {

// Equal for messages that are the same to us; 64 bits of SHA-256. What does not count: ids of
// calls, reasoning, and in what others wrote the lines that IsVolatileLine names.
uint64_t MessageKey(const WireJson& message);

std::vector<uint64_t> MessageKeys(const WireJson& messages);

// The key of a conversation up to a message: ChainKey(ChainKey(kEmptyChain, first), second) ..
inline constexpr uint64_t kEmptyChain = 0x7469646572756e73;
uint64_t ChainKey(uint64_t before, uint64_t message_key);

// A line that agents write anew with every request: what day it is, what the request is billed to.
bool IsVolatileLine(std::string_view line);

// The arguments of a call on one line: keys sorted, numbers as JavaScript would print them. A
// string stays as it is.
std::string CanonicalArguments(const WireJson& arguments);

// Whether the message is the model's and says something: text or a call.
bool IsSpokenAnswer(const WireJson& message);

}  // namespace tidemill
