// What the translators of all kinds of servers share: events of a stream, numbers of a JSON answer.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/remote/server_dialect.h"

namespace tidemill {

using ServerJson = nlohmann::json;

// The data of server-sent events ("data: ..."), however the bytes are cut. Not thread-safe.
class EventData {
 public:
  // kUnavailable: a line without end that is longer than any event.
  Status Add(std::string_view bytes);
  // The next whole event's data, valid until the next call; without: none is complete.
  std::optional<std::string_view> Next();

 private:
  std::string text_;
  size_t read_ = 0;  // of text_
};

// A POST of JSON.
HttpAsk JsonAsk(std::string target, const ServerJson& body);
HttpAsk PlainAsk(std::string method, std::string target);

// kUnavailable: it is not JSON.
Result<ServerJson> ReadServerJson(std::string_view text);
// A token's log-probability; finite and not above 0, as near as floats come to it.
Result<float> ReadLogprob(const ServerJson& value);
Result<TokenId> ReadTokenId(const ServerJson& value);
// [{"version": "7", "start": 0, "end": 12}, ..].
Result<std::vector<VersionSpan>> ReadSpans(const ServerJson& value);
// What a server says of a failure: its status and the beginning of its text.
Status ServerSays(int status, const std::string& body);
// The value of a line "NAME{labels} VALUE" of metrics, added up over its labels.
std::optional<double> ReadMetric(std::string_view metrics, std::string_view name);

}  // namespace tidemill
