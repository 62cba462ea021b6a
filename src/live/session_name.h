// A request's own statements besides its conversation: which session it belongs to, whether it
// is sent again, whether it is one of an agent's helpers. From headers and ids in the body; no
// state.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tidemill {

using LiveHeaders = std::map<std::string, std::string>;  // names in lower case
using SessionHints = std::vector<std::pair<std::string, std::string>>;

// The header by which a client names a session itself.
inline constexpr const char* kSessionHeader = "x-tidemill-session";
// With any value: the session ends with this turn.
inline constexpr const char* kSessionEndHeader = "x-tidemill-session-end";

// The kind of work of a session: its reward is compared within it.
inline constexpr const char* kTaskClassHeader = "x-tidemill-task";

struct SessionName {
  std::string name{};      // empty: the request names none
  std::string named_by{};  // the header or the field
};

// The explicit header, then those of known agents, then ids in the body
// (ChatRequest::session_hints). A name over 512 bytes is as none.
SessionName NameSession(const LiveHeaders& headers, const SessionHints& hints);

// The client says that it has sent this before.
bool IsDeclaredRetry(const LiveHeaders& headers);

// Why the request is not one of the agent's own turns; empty: nothing says so.
std::string DeclaredSide(const LiveHeaders& headers);

// The class of task that the client names; without one, the client program.
std::string TaskClass(const LiveHeaders& headers);

// The client program by its User-Agent: "claude-cli"; "unknown" without one.
std::string AgentName(const LiveHeaders& headers);

}  // namespace tidemill
