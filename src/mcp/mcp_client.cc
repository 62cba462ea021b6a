#include "mcp/mcp_client.h"

#include <algorithm>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr Duration kCancelPatience = milliseconds(500);
constexpr size_t kErrorMax = 1000;  // of a server's message

// A server's error: the caller's doing where its parameters are wrong, else the server's.
Status StatusOf(const RpcError& error) {
  const std::string text = "the server says: " + Beginning(error.message, kErrorMax);
  return error.code == kRpcInvalidParams ? Invalid(text) : Unavailable(text);
}

// What a server sends that is not of the protocol is no mistake of who calls its tools.
Status AsServers(const Status& status) {
  return status.code() == Code::kInvalid ? Unavailable(status.message()) : status;
}

}  // namespace

McpClient::McpClient(std::unique_ptr<McpTransport> transport, McpClientOptions options)
    : transport_(std::move(transport)), options_(std::move(options)) {}

Result<std::unique_ptr<McpClient>> McpClient::Connect(std::unique_ptr<McpTransport> transport,
                                                      McpClientOptions options) {
  std::unique_ptr<McpClient> client(new McpClient(std::move(transport), std::move(options)));
  TM_ASSIGN_OR_RETURN(const RpcJson result,
                      client->Ask(kMcpInitialize, McpInitializeParams(client->options_.name)));
  TM_ASSIGN_OR_RETURN(client->server_, ReadMcpInitialized(result));
  client->transport_->Speak(result["protocolVersion"].get<std::string>());
  TM_RETURN_IF_ERROR(client->transport_->Send(McpNote(kMcpInitialized, RpcJson::object()),
                                              client->options_.timeout));
  return client;
}

Status McpClient::Heed(const RpcMessage& message,
                       const std::function<void(const RpcJson&)>& progress) {
  if (message.kind == RpcMessage::Kind::kRequest) {
    RpcMessage answer = message.method == kMcpPing
                            ? RpcResult(message.id, RpcJson::object())
                            : RpcFailure(message.id, kRpcMethodNotFound,
                                         "this client has no \"" + message.method + "\"");
    return transport_->Send(answer, options_.timeout);
  }
  if (message.kind == RpcMessage::Kind::kNotification && message.method == kMcpProgress &&
      progress) {
    progress(message.params);
  }
  return Ok();
}

Result<RpcMessage> McpClient::AskFor(std::string_view method, RpcJson params, int64_t id,
                                     Duration timeout,
                                     const std::function<void(const RpcJson&)>& progress) {
  const auto began = std::chrono::steady_clock::now();
  const auto left = [&] { return timeout - (std::chrono::steady_clock::now() - began); };
  TM_RETURN_IF_ERROR(transport_->Send(McpRequest(id, method, std::move(params)), timeout));
  for (;;) {
    TM_ASSIGN_OR_RETURN(RpcMessage message, transport_->Receive(std::max(left(), Duration(0))));
    const bool answer =
        message.kind == RpcMessage::Kind::kResult || message.kind == RpcMessage::Kind::kError;
    if (answer && message.id == id) return message;
    // An answer to what was given up, or something else.
    if (!answer) TM_RETURN_IF_ERROR(Heed(message, progress));
  }
}

Result<RpcJson> McpClient::Ask(std::string_view method, RpcJson params) {
  TM_ASSIGN_OR_RETURN(RpcMessage answer,
                      AskFor(method, std::move(params), next_id_++, options_.timeout, {}));
  if (answer.kind == RpcMessage::Kind::kError) return StatusOf(answer.error);
  return std::move(answer.result);
}

Result<std::vector<McpTool>> McpClient::Tools() {
  std::vector<McpTool> tools;
  std::string cursor;
  do {
    RpcJson params = RpcJson::object();
    if (!cursor.empty()) params["cursor"] = cursor;
    TM_ASSIGN_OR_RETURN(const RpcJson result, Ask(kMcpListTools, std::move(params)));
    TM_ASSIGN_OR_RETURN(McpToolPage page, ReadMcpTools(result));
    if (page.tools.empty() && !page.cursor.empty()) {
      return Invalid("the server's list of tools has an empty page that is not the last");
    }
    for (McpTool& tool : page.tools) tools.push_back(std::move(tool));
    if (tools.size() > options_.tools_max) {
      return Full("the server has more than " + std::to_string(options_.tools_max) + " tools");
    }
    cursor = std::move(page.cursor);
  } while (!cursor.empty());
  return tools;
}

Result<McpCallResult> McpClient::Call(const std::string& tool, RpcJson arguments, Duration timeout,
                                      const std::function<void(const RpcJson&)>& progress) {
  const int64_t id = next_id_++;
  Result<RpcMessage> answer =
      AskFor(kMcpCallTool, McpCallParams(tool, std::move(arguments), progress ? id : 0), id,
             timeout, progress);
  if (!answer.ok()) {
    if (answer.status().code() == Code::kTimeout) {
      (void)transport_->Send(
          McpNote(kMcpCancelled, {{"requestId", id}, {"reason", "no answer in time"}}),
          kCancelPatience);
    }
    return AsServers(answer.status());
  }
  if (answer->kind == RpcMessage::Kind::kError) return StatusOf(answer->error);
  Result<McpCallResult> result = ReadMcpCallResult(answer->result, options_.text_max);
  return result.ok() ? std::move(result) : AsServers(result.status());
}

}  // namespace tidemill
