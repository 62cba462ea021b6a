// The headers of a request that the gateway reads, and those that go on to the recorder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"
#include "gateway/error_reply.h"
#include "gateway/tenant.h"
#include "http/http_message.h"

namespace tidemill {

inline constexpr std::string_view kRequestIdPrefix = "req_";
inline constexpr const char* kSessionNameHeader = "x-tidemill-session";

using RequestHeaderMap = std::map<std::string, std::string>;

// /s/NAME/v1/.. is /v1/.. with the session named in the header.
HttpRequest WithSessionOfPath(HttpRequest request);

// TurnQuestion's: no credentials; of an agent's episode, nothing that names a session or a version
// of the policy either, because these are the run's to say.
RequestHeaderMap HeadersToKeep(RequestHeaderMap headers, const Tenant& tenant);

// The version a request wants all its tokens from, by the header x-policy-version.
Result<std::optional<uint64_t>> PinnedVersion(const RequestHeaderMap& headers);

// "req_..", new each time, and the headers of the answer that tell it.
std::string NewRequestId();
HttpHeaders RequestHeaders(const std::string& request_id);

}  // namespace tidemill
