// For tests and benchmarks: a ScriptedInference behind a port of loopback, stepped by a thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "core/clock.h"
#include "core/mutex.h"
#include "testing/scripted_inference.h"
#include "http/http_server.h"

namespace tidemill {

class ScriptedHost {
 public:
  explicit ScriptedHost(ScriptedInference::Options options, Duration pace = {})
      : pace_(pace), server_(options) {
    HttpOptions http;
    http.give_way = false;
    http.connections_max = 8192;
    http.pending_max = 8192;
    http.body_bytes_max = size_t{16} << 20;
    http.write_timeout = std::chrono::minutes(5);
    HttpHandlers handlers;
    handlers.route = [](const HttpRequest&) { return HttpRoute{.serve = true}; };
    handlers.answer = [](const HttpRequest&) { return ErrorResponse(404, "nothing"); };
    handlers.serve = [this](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
      const int refuse = refuse_;
      if (refuse != 0) return reply->Send(ErrorResponse(refuse, "refused by the test"));
      {
        MutexLock lock(mutex_);
        server_.Ask(request.method, request.path, request.body,
                    std::make_unique<Reply>(std::move(reply)));
      }
      asked_.NotifyAll();
    };
    auto started = HttpServer::Start(http, std::move(handlers));
    TM_CHECK(started.ok(), started.ok() ? "" : started.status().message());
    http_ = std::move(*started);
    thread_ = std::thread([this] { Run(); });
  }
  ~ScriptedHost() {
    stop_ = true;
    asked_.NotifyAll();
    thread_.join();
    http_.reset();
  }

  HttpUrl url() const { return ParseHttpUrl(http_->url()).value(); }
  // With the server standing still.
  template <typename Use>
  auto With(Use use) {
    MutexLock lock(mutex_);
    return use(server_);
  }
  // Every request is answered with this status; 0: as it should be.
  void Refuse(int status) { refuse_ = status; }

 private:
  class Reply final : public ScriptedReply {
   public:
    explicit Reply(std::unique_ptr<HttpReply> to) : to_(std::move(to)) {}
    void Send(int status, const std::string& type, const std::string& body) override {
      to_->Send({.status = status, .content_type = type, .body = body, .headers = {}});
    }
    void Begin() override {
      to_->Begin({.status = 200, .content_type = "text/event-stream", .body = "", .headers = {}});
    }
    void Write(const std::string& bytes) override { to_->Write(bytes); }
    void End() override { to_->End(); }
    void Cut() override { to_.reset(); }
    bool gone() const override { return to_ == nullptr || to_->gone(); }

   private:
    std::unique_ptr<HttpReply> to_;
  };

  void Run() {
    while (!stop_) {
      MutexLock lock(mutex_);
      if (!server_.Step()) {
        asked_.WaitFor(lock, milliseconds(2), [this] { return stop_.load(); });
      } else if (pace_ > Duration{}) {
        lock.Unlock();
        std::this_thread::sleep_for(pace_);
        lock.Lock();
      }
    }
  }

  const Duration pace_;
  Mutex mutex_;
  CondVar asked_;
  ScriptedInference server_ TM_GUARDED_BY(mutex_);
  std::atomic<bool> stop_{false};
  std::atomic<int> refuse_{0};
  std::unique_ptr<HttpServer> http_;
  std::thread thread_;
};

}  // namespace tidemill
