#include "http/http_server.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "core/fd.h"
#include "core/log.h"
#include "http/http_core.h"

namespace tidemill {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kNiceness = 10;  // more than the rest of the process
constexpr int kNicenessMost = 19;

void AcceptNext(HttpServer::Core& core);

void OnAccept(HttpServer::Core& core, error_code error, tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  if (error) {
    // No file descriptor left, for example: wait, or this would spin.
    LogEvery(std::chrono::seconds(10), "http-accept", LogLevel::kWarn,
             "accepting a connection failed", {{"error", error.message()}});
    core.accept_again.expires_after(std::chrono::milliseconds(100));
    core.accept_again.async_wait([&core](error_code e) {
      if (!e) AcceptNext(core);
    });
    return;
  }
  (void)CloseOnExec(socket.native_handle());
  if (core.connections >= core.options.connections_max && !CloseLongestWaiting(core)) {
    ++core.refused;
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(RefusalText()), ignored);
  } else {
    ServeConnection(core, std::move(socket), nullptr);
  }
  AcceptNext(core);
}

void AcceptAt(HttpServer::Core& core, const std::shared_ptr<HttpEntrance>& entrance) {
  entrance->acceptor.async_accept([&core, entrance](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !entrance->acceptor.is_open()) return;
    if (error) {
      entrance->accept_again.expires_after(std::chrono::milliseconds(100));
      entrance->accept_again.async_wait([&core, entrance](error_code e) {
        if (!e && entrance->acceptor.is_open()) AcceptAt(core, entrance);
      });
      return;
    }
    (void)CloseOnExec(socket.native_handle());
    const bool full =
        entrance->open >= entrance->connections_max ||
        (core.connections >= core.options.connections_max && !CloseLongestWaiting(core));
    if (full) {
      ++core.refused;
      error_code ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(RefusalText()), ignored);
    } else {
      ServeConnection(core, std::move(socket), entrance);
    }
    AcceptAt(core, entrance);
  });
}

void AcceptNext(HttpServer::Core& core) {
  core.acceptor.async_accept(
      [&core](error_code error, tcp::socket socket) { OnAccept(core, error, std::move(socket)); });
}

// Comments keep streams alive, and show whose client is gone.
void PingStreams(HttpServer::Core& core) {
  core.ping.expires_after(core.options.ping_every);
  core.ping.async_wait([&core](error_code error) {
    if (error) return;
    static const auto frame = std::make_shared<const std::string>(": still here\n\n");
    const auto streams = core.streams;  // one that fell behind leaves the set
    for (const auto& stream : streams) (void)stream->Send(frame);
    PingStreams(core);
  });
}

Status Listen(HttpServer::Core& core) {
  const HttpOptions& options = core.options;
  error_code error;
  const std::string host = options.address == "localhost" ? "127.0.0.1" : options.address;
  const auto address = asio::ip::make_address(host, error);
  if (error) {
    return Invalid("\"" + options.address +
                   "\" is not an address to listen on (try 127.0.0.1, ::1 or 0.0.0.0)");
  }
  core.loopback = address.is_loopback();
  if (!core.loopback && core.tokens.empty() && !options.own_access) {
    return Invalid("listening on " + options.address +
                   " requires a bearer token, because other machines can reach it (use "
                   "--token-file, or listen on 127.0.0.1)");
  }
  const tcp::endpoint endpoint(address, options.port);
  const std::string name = host + ":" + std::to_string(options.port);
  core.acceptor.open(endpoint.protocol(), error);
  if (!error) (void)CloseOnExec(core.acceptor.native_handle());
  if (!error) core.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) core.acceptor.bind(endpoint, error);
  if (!error) core.acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Unavailable("cannot listen on " + name + ": " + error.message());
  return Ok();
}

}  // namespace

void GiveWay() {
  // Threads have niceness of their own on Linux. Where it is refused, nothing is lost.
  static thread_local const int done = [] {
    const auto thread = static_cast<id_t>(syscall(SYS_gettid));
    const int now = getpriority(PRIO_PROCESS, thread);
    return setpriority(PRIO_PROCESS, thread, std::min(now + kNiceness, kNicenessMost));
  }();
  (void)done;
}

bool NeedsToken(const std::string& path) {
  return path == "/metrics" || path == "/api" || path.rfind("/api/", 0) == 0;
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                      HttpHandlers handlers) {
  TM_CHECK(handlers.answer && options.workers > 0, "a server needs its handler and a worker");
  TM_CHECK(!options.own_access || (handlers.route && options.tokens.empty()),
           "who decides who may ask?");
  TM_ASSIGN_OR_RETURN(Tokens tokens, Tokens::Make(options.tokens));
  auto core = std::make_unique<Core>(options, std::move(handlers), std::move(tokens));
  TM_RETURN_IF_ERROR(Listen(*core));
  AcceptNext(*core);
  PingStreams(*core);
  core->thread = std::thread([core = core.get()] {
    if (core->options.give_way) GiveWay();
    core->io.run();
  });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
}

HttpServer::HttpServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}

HttpServer::~HttpServer() {
  core_->pool.stop();
  core_->aside.stop();
  core_->pool.join();
  core_->aside.join();
  core_->io.stop();
  core_->thread.join();
  // Those who still hold a stream must not reach the connection behind it.
  for (const auto& stream : core_->streams) stream->Close();
  for (const auto& reply : core_->replies) reply->Leave();
}

uint64_t HttpServer::AddEntrance(Fd listening, size_t connections_max) {
  const uint64_t number = core_->next_entrance++;
  auto entrance = std::make_shared<HttpEntrance>(core_->io, number, connections_max);
  asio::post(core_->io, [core = core_.get(), entrance,
                         fd = std::make_shared<Fd>(std::move(listening))]() mutable {
    error_code error;
    entrance->acceptor.assign(tcp::v4(), fd->get(), error);
    if (error) {
      LogWarn("a socket cannot be listened on", {{"error", error.message()}});
      return;
    }
    (void)fd->Release();
    core->entrances.emplace(entrance->number, entrance);
    AcceptAt(*core, entrance);
  });
  return number;
}

void HttpServer::RemoveEntrance(uint64_t entrance) {
  asio::post(core_->io, [core = core_.get(), entrance] {
    const auto it = core->entrances.find(entrance);
    if (it == core->entrances.end()) return;
    error_code ignored;
    it->second->acceptor.close(ignored);
    it->second->accept_again.cancel();
    core->entrances.erase(it);
  });
}

uint16_t HttpServer::port() const {
  error_code ignored;
  return core_->acceptor.local_endpoint(ignored).port();
}

std::string HttpServer::url() const {
  const std::string& address = core_->options.address;
  const bool bracket = address.find(':') != std::string::npos;
  return "http://" + (bracket ? "[" + address + "]" : address) + ":" + std::to_string(port()) + "/";
}

HttpServer::Stats HttpServer::stats() const {
  return {core_->requests, core_->refused, core_->connections, core_->open_streams};
}

}  // namespace tidemill
