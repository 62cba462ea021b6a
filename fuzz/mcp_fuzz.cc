// What agents post to the server of the Model Context Protocol, and what such servers answer to our
// client: whatever the bytes, a message or a refusal, and what is written can be read again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "mcp/event_lines.h"
#include "mcp/mcp_server.h"

namespace {

using namespace tidemill;

void TryMessage(const RpcMessage& message) {
  const RpcParsed again = ParseRpc(DumpRpc(message));
  if (!again.status.ok() || again.message.kind != message.kind) abort();
  if (DumpRpc(again.message) != DumpRpc(message)) abort();
  const Result<McpCall> call = ReadMcpCall(message.params);
  if (call.ok() && !RpcJson::accept(call->arguments_json)) abort();
  const RpcJson greeting = McpServerGreeting(message.params, {}, "");
  if (!ReadMcpInitialized(greeting).ok()) abort();
  const Result<McpToolPage> page = ReadMcpTools(message.result);
  if (page.ok() && !ReadMcpTools(McpToolList(page->tools)).ok()) abort();
  const Result<McpCallResult> result = ReadMcpCallResult(message.result, 100);
  if (result.ok() && result->text.size() > 102) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  HttpRequest request{.method = "POST", .path = "/mcp", .query = {}, .headers = {}, .body = bytes};
  const McpPost post = ReadMcpPost(request, {.bytes = 1 << 16, .depth = 20});
  if (!post.refusal) TryMessage(post.message);
  for (const std::string& event : DataOfEvents(bytes)) {
    const RpcParsed parsed = ParseRpc(event, {.bytes = 1 << 16, .depth = 20});
    if (parsed.status.ok()) TryMessage(parsed.message);
  }
  return 0;
}
