// For tests: what the scripted policy says to agents and clients.
#pragma once

#include <string>

namespace tidemill {

// The answer to a conversation in ChatML, tools as ScriptedTemplate and Qwen write them. A user's
// message may say what it wants:
//   say TEXT                  the text
//   think A then B            A as reasoning, B as text
//   call NAME {..}            one call; more of them behind " and "
//   long N                    N words
// An agent that has a tool for a shell is told to run `command`, and so is one that reads commands
// out of the text (mini-swe-agent's text mode); once it has an answer, it gets a sentence, or what
// ends it. One that reads files out of the text (aider) gets hello.c, the first time with a
// mistake.
std::string ScriptedAnswer(const std::string& prompt, const std::string& command);

// The next of some calls, a JSON list of {"tool", "arguments"}, of tools of a server whose name is
// that of this program (Model Context Protocol); a text when all have had their results.
std::string ScriptedCalls(const std::string& prompt, const std::string& steps);

// ChatML with tools and reasoning.
const char* ScriptedTemplate();

}  // namespace tidemill
