// For tests: a server of NeMo-Gym whose answers are scripted.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "http/http_peer.h"
#include "http/http_server.h"

namespace tidemill {

// A NeMo-Gym resources server; what it answers is up to the test.
class ScriptedGym {
 public:
  using Script = std::function<void(const HttpRequest&, std::unique_ptr<HttpReply>)>;

  explicit ScriptedGym(Script script) : script_(std::move(script)) {
    HttpOptions options;
    options.own_access = true;
    options.give_way = false;
    options.connections_max = options.pending_max = 8192;
    options.idle_timeout = options.request_timeout = std::chrono::minutes(5);
    HttpHandlers handlers;
    handlers.route = [](const HttpRequest&) { return HttpRoute{.serve = true}; };
    handlers.serve = [this](HttpRequest request, std::unique_ptr<HttpReply> reply) {
      script_(request, std::move(reply));
    };
    handlers.answer = [](const HttpRequest&) { return HttpResponse(); };
    server_ = std::move(HttpServer::Start(options, std::move(handlers))).value();
  }
  HttpUrl url() const {
    std::string url = server_->url();
    url.pop_back();
    return ParseHttpUrl(url).value();
  }

 private:
  const Script script_;
  std::unique_ptr<HttpServer> server_;
};

inline void ReplyTo(HttpReply& reply, const std::string& body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = body;
  reply.Send(std::move(response));
}

}  // namespace tidemill
