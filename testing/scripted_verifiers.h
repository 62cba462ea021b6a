// For tests: a verifiers server, on libzmq's own ROUTER. What becomes of a run is scripted.
#pragma once

#include <zmq.h>

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "environments/msgpack.h"
#include "environments/zero_mq.h"
#include "http/http_peer.h"

namespace tidemill {

struct VerifiersRun {
  EnvironmentJson task, client, sampling;
  std::string id;  // of the request

  // One chat turn by the run's client; the status.
  int AskTheModel(const std::string& talk, const std::string& text) const {
    const std::string base = client["base_url"].get<std::string>();
    auto peer = HttpPeer::Make(ParseHttpUrl(base).value(), {}).value();
    HttpAsk ask;
    ask.target = ParseHttpUrl(base)->path + "/chat/completions";
    // As an OpenAI client with no key of its own sends it.
    ask.headers = {{"x-api-key", client["headers"]["x-api-key"].get<std::string>()},
                   {"Authorization", "Bearer EMPTY"},
                   {"X-Session-ID", talk},
                   {"Content-Type", "application/json"}};
    const EnvironmentJson messages =
        EnvironmentJson::array({{{"role", "user"}, {"content", text}}});
    ask.body = EnvironmentJson({{"model", "policy"}, {"messages", messages}}).dump();
    for (;;) {
      const auto answer = peer->Ask(ask, std::chrono::seconds(30));
      constexpr int kTooMany = 429;  // the client asks again
      if (!answer.ok() || answer->status != kTooMany) return answer.ok() ? answer->status : 0;
      std::this_thread::yield();
    }
  }
};

class ScriptedVerifiers {
 public:
  // A frame by its kind, "delta" or "reply". Told by several threads at once.
  using Tell = std::function<void(const char* kind, const std::string& bytes)>;
  using Script = std::function<void(const VerifiersRun& run, const Tell& tell)>;

  explicit ScriptedVerifiers(Script script) : script_(std::move(script)) {
    router_ = zmq_socket(context_, ZMQ_ROUTER);
    const int none = 0;
    zmq_setsockopt(router_, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(router_, ZMQ_SNDHWM, &none, sizeof(none));
    TM_CHECK(zmq_bind(router_, "tcp://127.0.0.1:*") == 0, "bind");
    char address[64];
    size_t size = sizeof(address);
    TM_CHECK(zmq_getsockopt(router_, ZMQ_LAST_ENDPOINT, address, &size) == 0, "endpoint");
    port_ = std::string(address).substr(std::string(address).rfind(':') + 1);
    socket_ = std::thread([this] { RunSocket(); });
    for (int i = 0; i < 4; ++i) players_.emplace_back([this] { RunPlayer(); });
  }
  ~ScriptedVerifiers() {
    stopping_ = true;
    changed_.NotifyAll();
    for (std::thread& player : players_) player.join();
    socket_.join();
    zmq_close(router_);
    zmq_ctx_term(context_);
  }

  HttpUrl url() const { return ParseHttpUrl("http://127.0.0.1:" + port_).value(); }
  uint64_t cancelled() const { return cancelled_; }

  static EnvironmentJson Open(const std::string& trace, const std::string& player) {
    return {{"trace", trace},
            {"open", {{"id", trace}, {"version", 1}}},
            {"set", {{"agent", {{"name", player}, {"trainable", true}}}}}};
  }
  static EnvironmentJson Turn(const std::string& trace) {
    return {{"trace", trace},
            {"nodes", EnvironmentJson::array({{{"sampled", false}}, {{"sampled", true}}})},
            {"calls", EnvironmentJson::array({{{"node", 1}, {"error", nullptr}}})}};
  }
  static EnvironmentJson Paid(const std::string& trace, double score, double weight) {
    return {{"trace", trace},
            {"set",
             {{"rewards", {{"correct", {{"score", score}, {"weight", weight}}}}}, {"ok", true}}}};
  }
  static EnvironmentJson Done(const std::vector<std::string>& traces) {
    EnvironmentJson summaries = EnvironmentJson::array();
    for (const std::string& trace : traces) {
      summaries.push_back({{"id", trace}, {"nodes", 2}, {"calls", 1}});
    }
    return {{"success", true}, {"error", nullptr}, {"head", {{"ok", true}}}, {"traces", summaries}};
  }

 private:
  struct Asked {
    std::string client;
    VerifiersRun run;
  };

  void RunSocket() {
    while (!stopping_) {
      zmq_pollitem_t item = {router_, 0, ZMQ_POLLIN, 0};
      zmq_poll(&item, 1, 2);
      if ((item.revents & ZMQ_POLLIN) != 0) Hear(Receive());
      std::deque<ZeroMqParts> out;
      {
        MutexLock lock(mutex_);
        out.swap(out_);
      }
      for (const ZeroMqParts& parts : out) {
        for (size_t i = 0; i < parts.size(); ++i) {
          zmq_send(router_, parts[i].data(), parts[i].size(),
                   i + 1 < parts.size() ? ZMQ_SNDMORE : 0);
        }
      }
    }
  }

  ZeroMqParts Receive() {
    ZeroMqParts parts;
    for (int more = 1; more != 0;) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      if (zmq_msg_recv(&part, router_, 0) < 0) return {};
      parts.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
      more = zmq_msg_more(&part);
      zmq_msg_close(&part);
    }
    return parts;
  }

  void Hear(const ZeroMqParts& parts) {
    if (parts.size() != 4) return;
    if (parts[2] == "cancel") ++cancelled_;
    if (parts[2] != "run") return;
    const EnvironmentJson body = ReadMsgpack(parts[3]).value();
    MutexLock lock(mutex_);
    asked_.push_back({parts[0], {body["task_data"], body["client"], body["sampling"], parts[1]}});
    changed_.NotifyAll();
  }

  void RunPlayer() {
    for (;;) {
      Asked asked;
      {
        MutexLock lock(mutex_);
        while (!stopping_ && asked_.empty()) {
          (void)changed_.WaitFor(lock, std::chrono::milliseconds(50), [] { return false; });
        }
        if (stopping_) return;
        asked = std::move(asked_.front());
        asked_.pop_front();
      }
      script_(asked.run, [this, &asked](const char* kind, const std::string& bytes) {
        MutexLock lock(mutex_);
        out_.push_back({asked.client, asked.run.id, kind, bytes});
      });
    }
  }

  const Script script_;
  void* const context_ = zmq_ctx_new();
  void* router_ = nullptr;
  std::string port_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> cancelled_{0};
  Mutex mutex_;
  CondVar changed_;
  std::deque<Asked> asked_ TM_GUARDED_BY(mutex_);
  std::deque<ZeroMqParts> out_ TM_GUARDED_BY(mutex_);
  std::thread socket_;
  std::vector<std::thread> players_;
};

}  // namespace tidemill
