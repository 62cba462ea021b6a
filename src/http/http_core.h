// Shared by the server and its connections. For http_*.cc only.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "http/access.h"
#include "http/body_budget.h"
#include "http/fair_queue.h"
#include "http/http_server.h"

namespace tidemill {

class Connection;

// A way in besides the server's own address. The io thread's, but for `open`.
struct HttpEntrance {
  HttpEntrance(boost::asio::io_context& io, uint64_t n, size_t most)
      : number(n), connections_max(most), acceptor(io), accept_again(io) {}

  const uint64_t number;
  const size_t connections_max;
  std::atomic<size_t> open{0};  // connections
  boost::asio::ip::tcp::acceptor acceptor;
  boost::asio::steady_timer accept_again;
};

struct HttpServer::Core {
  Core(const HttpOptions& o, HttpHandlers h, Tokens t)
      : options(o),
        handlers(std::move(h)),
        tokens(std::move(t)),
        bodies(options.bodies_bytes_max),
        pool(options.workers) {}

  const HttpOptions options;
  const HttpHandlers handlers;
  const Tokens tokens;
  bool loopback = true;  // bound to it: only Host headers that name it are answered

  // Connections use what stands above `io`, and those still open go when it goes: the order counts.
  std::set<std::shared_ptr<EventStream>> streams;  // the io thread's; shared with those who send
  std::set<std::shared_ptr<ReplyPipe>> replies;    // the io thread's; shared with those who answer
  std::list<Connection*> waiting;  // the io thread's: whose next head has not come, longest first
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<size_t> connections{0};
  std::atomic<size_t> open_streams{0};
  std::atomic<size_t> pending{0};
  BodyBudget bodies;

  boost::asio::io_context io{1};
  boost::asio::ip::tcp::acceptor acceptor{io};
  boost::asio::steady_timer accept_again{io};
  boost::asio::steady_timer ping{io};
  FairQueue queue;  // what the pool works on
  boost::asio::thread_pool pool;
  boost::asio::thread_pool aside{1};
  std::thread thread;
  std::atomic<uint64_t> next_entrance{1};
  // The io thread's; shared with connections, which count themselves.
  std::map<uint64_t, std::shared_ptr<HttpEntrance>> entrances;
};

// Serves one connection until it ends; keeps itself alive. `entrance` is null where it came by the
// server's own address.
void ServeConnection(HttpServer::Core& core, boost::asio::ip::tcp::socket socket,
                     std::shared_ptr<HttpEntrance> entrance);

// Closes the connection that has waited longest for its next request: when all places are taken,
// those who say nothing make room. False: nobody waits.
bool CloseLongestWaiting(HttpServer::Core& core);

// "HTTP/1.1 503 ..." whole, for those who are refused before anything was read.
std::string RefusalText();

// The headers every answer carries, as lines.
const std::vector<std::pair<std::string, std::string>>& SecurityHeaders();

}  // namespace tidemill
