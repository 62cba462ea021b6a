// Servers of the Model Context Protocol whose tools are tools of agents: connections that are
// opened when a call needs one and kept for the next.
//
//   a slot of ToolExecutor -> Call -> a free connection -> [a program in a box | HTTP] -> result
//
// A connection that failed is dropped, and with it the program; the next call begins another.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "mcp/mcp_client.h"
#include "tools/box/box_host.h"
#include "tools/boxed_server.h"

namespace tidemill {

struct McpServerSpec {
  std::string name{};              // for people
  std::string url{};               // of one that runs elsewhere; empty: `program` is started
  std::string bearer{};            // for `url`; empty: none
  BoxedServer::Program program{};  // in a box of `boxes`
  BoxHostOptions boxes{};
  Duration start = std::chrono::seconds(30);  // for the greeting and for a list of tools
  Duration call = std::chrono::seconds(10);
  size_t slots = 2;                            // connections, each with one call at a time
  std::map<std::string, std::string> tools{};  // by the agents' name: the server's own
};

// Thread-safe. No call may be under way when it goes.
class McpServer {
 public:
  explicit McpServer(McpServerSpec spec);
  ~McpServer();

  const McpServerSpec& spec() const { return spec_; }
  Result<std::vector<McpTool>> Tools();
  // Waits for a free connection, then for the answer. kInvalid: the server refused the arguments.
  // Everything else is a failure of ours: kTimeout: no answer in time; kUnavailable: the server is
  // gone or talks nonsense, with how its program ended.
  Result<McpCallResult> Call(const std::string& tool, const RpcJson& arguments);
  // Calls that wait, and later ones, fail with kUnavailable.
  void Stop();

 private:
  struct Connection {
    std::unique_ptr<BoxedServer> program;  // null: it is behind HTTP
    std::unique_ptr<McpClient> client;
  };

  Result<std::unique_ptr<Connection>> Take();
  // It was not used, or is of no use any more.
  Status Drop(std::unique_ptr<Connection> connection, const Status& why);
  void GiveBack(std::unique_ptr<Connection> connection);
  Status Connect(Connection& connection);
  Result<std::unique_ptr<McpTransport>> StartProgram(Connection& connection);

  const McpServerSpec spec_;
  Mutex opening_;
  std::unique_ptr<BoxHost> host_ TM_GUARDED_BY(opening_);
  Mutex mutex_;
  CondVar freed_;
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  size_t open_ TM_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Connection>> idle_ TM_GUARDED_BY(mutex_);
  std::set<Connection*> busy_ TM_GUARDED_BY(mutex_);
};

// The servers of a process. Thread-safe.
class McpServers {
 public:
  explicit McpServers(std::vector<McpServerSpec> specs);

  // Null: no server has a tool that agents call so.
  McpServer* Of(const std::string& tool) const;
  void Stop();

 private:
  std::vector<std::unique_ptr<McpServer>> servers_;
};

}  // namespace tidemill
