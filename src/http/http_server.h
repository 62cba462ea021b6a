// A small HTTP/1.1 server: for the page and its API, and for the gateway.
//
//   accept -> Connection (one io thread) -> head: route -> body -> handler (a few workers)
//   -> answer, a stream of events, or a reply that comes later
//
// Safe to leave open while a run trains: everything a client can hold is bounded in number, in
// bytes and in time, and its threads may give way to every other thread of the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fd.h"
#include "core/status.h"
#include "http/event_stream.h"
#include "http/http_message.h"
#include "http/http_reply.h"

namespace tidemill {

struct HttpOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: a free one
  // Outside loopback at least one is needed; each at least kTokenBytesMin characters.
  std::vector<std::string> tokens;
  // `route` decides who may ask, outside loopback too; `tokens` is not used.
  bool own_access = false;
  // Pages of other origins may ask: `route` sees their Origin, and OPTIONS requests, and decides.
  bool other_origins = false;
  bool changes = false;  // PUT and DELETE are handlers' too, beside GET, HEAD and POST
  bool give_way = true;  // threads yield to all others of the process

  size_t header_bytes_max = 16 * 1024;
  size_t body_bytes_max = 64 * 1024;            // unless the route says otherwise
  size_t bodies_bytes_max = size_t{256} << 20;  // of all requests, as they arrive (BodyBudget)
  size_t connections_max = 512;
  size_t streams_max = 256;
  size_t stream_bytes_max = size_t{1} << 20;  // that wait for one client
  size_t pending_max = 128;                   // requests that wait for a worker
  unsigned workers = 2;

  std::chrono::milliseconds request_timeout{
      10'000};                                      // from the first byte to the last of a request
  std::chrono::milliseconds idle_timeout{30'000};   // between requests of a connection
  std::chrono::milliseconds write_timeout{20'000};  // for an answer, or an event
  std::chrono::milliseconds ping_every{15'000};     // on streams of events
};

// The decision before the body is read.
struct HttpRoute {
  bool serve = false;                     // HttpHandlers::serve answers it
  size_t body_bytes_max = 0;              // 0: HttpOptions::body_bytes_max
  std::optional<HttpResponse> refusal{};  // instead of everything else
  uint64_t tenant = 0;                    // who asks, for its share of the server; 0: nobody known
  bool aside = false;  // may take long: by a thread of its own, one such request after another
  // Goes to HttpRequest::hold.
  std::shared_ptr<const void> hold{};
};

struct HttpHandlers {
  // Called with a request without its body, by the io thread: microseconds. None: no request has a
  // route of its own.
  std::function<HttpRoute(const HttpRequest&)> route{};
  // Called by workers, several at a time. Answers when it likes; throws nothing.
  std::function<void(HttpRequest, std::unique_ptr<HttpReply>)> serve{};
  // How a request is refused that never reaches a handler; the request may be empty. None:
  // ErrorResponse.
  std::function<HttpResponse(const HttpRequest&, int status, std::string_view why)> refuse{};
  // Called by workers, several at a time. Throws nothing.
  std::function<HttpResponse(const HttpRequest&)> answer;
  // For GET kEventsPath; none: there is no such path. Keeps the stream to send to it, or says why
  // not. Called by workers.
  std::function<Status(const HttpRequest&, std::shared_ptr<EventStream>)> open_stream;
};

inline constexpr const char* kEventsPath = "/api/events";

// What asks for a token when the server has any: the API and the metrics. The page itself and the
// health checks tell nothing.
bool NeedsToken(const std::string& path);

// Makes this thread yield to all others of the process: training comes first.
void GiveWay();

class HttpServer {
 public:
  // Listens when it returns. kInvalid: the address, or no token outside loopback. kUnavailable: the
  // port is taken.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                   HttpHandlers handlers);
  // Closes every connection; handlers are not called afterwards.
  ~HttpServer();

  // One more way in, by a TCP socket that listens already: of another network name space, say.
  // Requests by it carry the number that is returned. Not more than `connections_max` at once.
  uint64_t AddEntrance(Fd listening, size_t connections_max);
  // Accepts nothing there any more; connections that are open stay until they end.
  void RemoveEntrance(uint64_t entrance);

  uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8321/"

  struct Stats {
    uint64_t requests = 0;
    uint64_t refused = 0;  // connections over the limit
    size_t connections = 0;
    size_t streams = 0;  // of events
  };
  Stats stats() const;

  struct Core;

 private:
  explicit HttpServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace tidemill
