#include "tools/mcp_servers.h"

#include <utility>

#include "mcp/http_transport.h"
#include "mcp/stdio_transport.h"

namespace tidemill {

McpServer::McpServer(McpServerSpec spec) : spec_(std::move(spec)) {}

McpServer::~McpServer() {
  Stop();
  MutexLock lock(mutex_);
  TM_CHECK(busy_.empty(), "a call of an MCP server is under way");
  idle_.clear();  // before the host of their boxes
}

Result<std::unique_ptr<McpTransport>> McpServer::StartProgram(Connection& connection) {
  BoxHost* host = nullptr;
  {
    MutexLock lock(opening_);
    if (host_ == nullptr) {
      TM_ASSIGN_OR_RETURN(host_, BoxHost::Create(spec_.boxes));
    }
    host = host_.get();
  }
  TM_ASSIGN_OR_RETURN(std::unique_ptr<BoxedServer> program,
                      BoxedServer::Start(*host, spec_.program));
  CommandPipes pipes = program->TakePipes();
  {
    MutexLock lock(mutex_);
    if (stopping_) return Unavailable("stopped");
    connection.program = std::move(program);
  }
  TM_ASSIGN_OR_RETURN(auto transport,
                      StdioTransport::Make(std::move(pipes.input), std::move(pipes.output)));
  return std::unique_ptr<McpTransport>(std::move(transport));
}

Status McpServer::Connect(Connection& connection) {
  std::unique_ptr<McpTransport> transport;
  if (spec_.url.empty()) {
    TM_ASSIGN_OR_RETURN(transport, StartProgram(connection));
  } else {
    TM_ASSIGN_OR_RETURN(transport, HttpTransport::Make({.url = spec_.url, .bearer = spec_.bearer}));
  }
  McpClientOptions options;
  options.timeout = spec_.start;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<McpClient> client,
                      McpClient::Connect(std::move(transport), std::move(options)));
  MutexLock lock(mutex_);
  connection.client = std::move(client);
  return stopping_ ? Unavailable("stopped") : Ok();
}

Result<std::unique_ptr<McpServer::Connection>> McpServer::Take() {
  auto connection = std::make_unique<Connection>();
  {
    MutexLock lock(mutex_);
    freed_.Wait(lock, [this]() TM_REQUIRES(mutex_) {
      return stopping_ || !idle_.empty() || open_ < spec_.slots;
    });
    if (stopping_) return Unavailable("stopped");
    const bool kept = !idle_.empty();
    if (kept) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    } else {
      ++open_;
    }
    busy_.insert(connection.get());
    if (kept) return connection;
  }
  const Status connected = Connect(*connection);
  if (!connected.ok()) return Drop(std::move(connection), connected);
  return connection;
}

Status McpServer::Drop(std::unique_ptr<Connection> connection, const Status& why) {
  {
    MutexLock lock(mutex_);
    busy_.erase(connection.get());
  }
  // Before its program is ended: an HTTP session is closed by it.
  connection->client.reset();
  std::string text = "the MCP server " + spec_.name + ": " + why.message();
  if (connection->program != nullptr) text += " (" + connection->program->End() + ")";
  connection.reset();
  MutexLock lock(mutex_);
  --open_;
  freed_.NotifyOne();
  return Status(why.code() == Code::kTimeout ? Code::kTimeout : Code::kUnavailable, text);
}

void McpServer::GiveBack(std::unique_ptr<Connection> connection) {
  MutexLock lock(mutex_);
  busy_.erase(connection.get());
  idle_.push_back(std::move(connection));
  freed_.NotifyOne();
}

Result<std::vector<McpTool>> McpServer::Tools() {
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Take());
  Result<std::vector<McpTool>> tools = connection->client->Tools();
  if (!tools.ok()) return Drop(std::move(connection), tools.status());
  GiveBack(std::move(connection));
  return tools;
}

Result<McpCallResult> McpServer::Call(const std::string& tool, const RpcJson& arguments) {
  const auto own = spec_.tools.find(tool);
  if (own == spec_.tools.end()) return Unavailable(spec_.name + " has no tool " + tool);
  for (bool again = false;; again = true) {
    TM_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection, Take());
    Result<McpCallResult> result = connection->client->Call(own->second, arguments, spec_.call);
    if (result.ok() || result.status().code() == Code::kInvalid) {
      GiveBack(std::move(connection));
      return result;
    }
    const Code code = result.status().code();
    const Status failed = Drop(std::move(connection), result.status());
    // The server forgot the session, and so carried nothing out.
    if (code != Code::kNotFound || again) return failed;
  }
}

void McpServer::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  for (Connection* connection : busy_) {
    if (connection->client != nullptr) {
      connection->client->Interrupt();
    } else if (connection->program != nullptr) {
      connection->program->Kill();
    }
  }
  freed_.NotifyAll();
}

McpServers::McpServers(std::vector<McpServerSpec> specs) {
  for (McpServerSpec& spec : specs)
    servers_.push_back(std::make_unique<McpServer>(std::move(spec)));
}

McpServer* McpServers::Of(const std::string& tool) const {
  for (const auto& server : servers_) {
    if (server->spec().tools.contains(tool)) return server.get();
  }
  return nullptr;
}

void McpServers::Stop() {
  for (const auto& server : servers_) server->Stop();
}

}  // namespace tidemill
