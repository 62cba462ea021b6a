// Who answers at kMcpPath: the gateway knows keys and connections, and nothing of what is said
// there.
#pragma once

#include <memory>
#include <string_view>

#include "gateway/tenant.h"
#include "http/http_message.h"
#include "http/http_reply.h"

namespace tidemill {

inline constexpr std::string_view kMcpPath = "/mcp";

class McpDoor {
 public:
  virtual ~McpDoor() = default;
  // Answers when it likes. Called by HTTP workers, several at a time; throws nothing.
  virtual void Answer(const Tenant& tenant, HttpRequest request,
                      std::unique_ptr<HttpReply> reply) = 0;
};

}  // namespace tidemill
