#include "live/session_name.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kNameBytesMax = 512;

// Claude Code, Codex, OpenCode and verifiers (also Terminus), pi.
constexpr const char* kAgentHeaders[] = {"x-claude-code-session-id", "session-id", "x-session-id",
                                         "x-session-affinity", "session_id"};

std::string HeaderOf(const LiveHeaders& headers, const char* name) {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

bool Usable(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax;
}

// A field of a JSON object; empty: the text is none, or has no such string.
std::string FieldOf(std::string_view json, const char* field) {
  if (json.size() > 64 * 1024) return {};
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) return {};
  const auto it = object.find(field);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// Long enough and mixed enough to be made for one conversation: a cache key may also be shared.
bool LooksUnique(std::string_view id) {
  const auto digits =
      std::count_if(id.begin(), id.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return id.size() >= 20 && digits >= 4;
}

// Claude Code's user id holds the session: {"session_id": ..}, formerly user_.._session_UUID. Any
// other user id is a person's.
std::string SessionOfUser(const std::string& user) {
  if (std::string id = FieldOf(user, "session_id"); !id.empty()) return id;
  const size_t at = user.rfind("_session_");
  return at == std::string::npos ? std::string() : user.substr(at + 9);
}

}  // namespace

SessionName NameSession(const LiveHeaders& headers, const SessionHints& hints) {
  if (std::string name = HeaderOf(headers, kSessionHeader); Usable(name)) {
    return {std::move(name), kSessionHeader};
  }
  for (const char* header : kAgentHeaders) {
    if (std::string name = HeaderOf(headers, header); Usable(name)) {
      return {std::move(name), header};
    }
  }
  for (const auto& [field, value] : hints) {
    std::string name = value;
    if (field == "metadata.user_id" || field == "user") name = SessionOfUser(value);
    if (field == "prompt_cache_key" && !LooksUnique(value)) continue;
    if (Usable(name)) return {std::move(name), field};
  }
  return {};
}

bool IsDeclaredRetry(const LiveHeaders& headers) {
  const std::string count = HeaderOf(headers, "x-stainless-retry-count");
  int tries = 0;
  std::from_chars(count.data(), count.data() + count.size(), tries);
  return tries > 0;
}

std::string DeclaredSide(const LiveHeaders& headers) {
  if (const std::string kind = HeaderOf(headers, "x-openai-subagent"); !kind.empty()) {
    return "subagent";
  }
  if (!HeaderOf(headers, "x-parent-session-id").empty()) return "subagent";
  const std::string metadata = HeaderOf(headers, "x-codex-turn-metadata");
  if (metadata.empty()) return {};
  if (const std::string kind = FieldOf(metadata, "request_kind"); !kind.empty() && kind != "turn") {
    return "helper";
  }
  const std::string agent = FieldOf(metadata, "agent_name");
  return agent.empty() || agent == "/root" ? "" : "subagent";
}

std::string TaskClass(const LiveHeaders& headers) {
  std::string name = HeaderOf(headers, kTaskClassHeader);
  return Usable(name) ? ToUtf8(name) : AgentName(headers);
}

std::string AgentName(const LiveHeaders& headers) {
  const std::string agent = HeaderOf(headers, "user-agent");
  std::string name;
  for (const char c : agent) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                       c == '.' || c == '@';
    if (!plain || name.size() == 64) break;
    name += c;
  }
  return name.empty() ? "unknown" : name;
}

}  // namespace tidemill
