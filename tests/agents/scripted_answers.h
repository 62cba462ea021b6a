// For tests: what the scripted policy says to agents and clients.
#pragma once

#include <string>

namespace tidemill {

// The answer to a conversation as ScriptedTemplate wrote it. A user's message may say what it
// wants:
//   say TEXT                  the text
//   think A then B            A as reasoning, B as text
//   call NAME {..}            one call; more of them behind " and "
//   long N                    N words
// An agent that has a tool for a shell is told to run `command`; once a tool has answered, it gets
// a sentence.
std::string ScriptedAnswer(const std::string& prompt, const std::string& command);

// ChatML with tools and reasoning.
const char* ScriptedTemplate();

}  // namespace tidemill
