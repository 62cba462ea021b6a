// The gateway as a whole: an HTTP server with the routes of the APIs, and the loop behind it.
//
//   head: key -> Admission -> body -> HTTP worker: ParseRequest -> TurnRecorder::Prepare
//   -> PlanTurns -> GatewayLoop -> engine -> client
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/loop_runner.h"
#include "core/metrics.h"
#include "engine/engine_port.h"
#include "gateway/access_log.h"
#include "gateway/admission.h"
#include "gateway/answer_constraints.h"
#include "gateway/api_keys.h"
#include "gateway/cors.h"
#include "gateway/error_reply.h"
#include "gateway/gateway_figures.h"
#include "gateway/gateway_loop.h"
#include "gateway/gateway_metrics.h"
#include "gateway/key_file.h"
#include "gateway/mcp_door.h"
#include "gateway/passing_keys.h"
#include "gateway/served_adapters.h"
#include "gateway/served_policy.h"
#include "gateway/turn_plan.h"
#include "gateway/turn_recorder.h"
#include "gateway/wire.h"
#include "http/http_server.h"

namespace tidemill {

// An operator's changes to a live run: `tidemill live delete` and the like.
inline constexpr const char* kLivePath = "/live/";

struct GatewayOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: a free one
  ApiKeys keys = ApiKeys::Open({});
  std::string key_file{};  // what they were read from: read again when it changes; empty: nothing
  bool strict_model = false;           // another model's name is a 404
  ServedAdapters* adapters = nullptr;  // beside the model; null: none. Must outlive the gateway
  std::vector<std::string> cors{};     // Cors' origins
  std::string version{};               // of the program, for GET /version
  std::string access_log{};            // a file, "-" for standard error; empty: none
  size_t body_bytes_max = size_t{32} << 20;
  unsigned workers = 2;  // that read and render requests
  size_t connections_max = 4096;
  WireLimits limits{};
  AdmissionLimits admission{};
  McpDoor* mcp = nullptr;  // answers at kMcpPath; null: 404. Must outlive the gateway
  // Answers requests below kLivePath to the operator; checks who asks itself. None: 404.
  std::function<HttpResponse(const HttpRequest&)> operate{};
  GatewayLoopOptions loop{};
  bool own_thread = true;  // false: the owner steps loop()
  PlanOptions plan{};      // context_tokens must be the engine's
};

// Thread-safe.
class Gateway final : public RequestObserver {
 public:
  // What is given by reference must outlive it. Listens when it returns. kInvalid: the address, or
  // no keys outside loopback. kUnavailable: the port is taken.
  static Result<std::unique_ptr<Gateway>> Start(GatewayOptions options, const ServedPolicy& policy,
                                                EnginePort& engine, TurnRecorder& recorder,
                                                const Clock& clock, Metrics& metrics);
  // Cuts what is under way.
  ~Gateway() override;

  Loop& loop() { return loop_; }
  // With a thread of its own: takes no new requests and waits for those under way, `patience` at
  // most. kTimeout: some were not over.
  Status Drain(Duration patience);

  // An agent's way in: a socket that listens in its box, and the only key that is served there.
  struct Guest {
    uint64_t entrance = 0;
    std::string key{};
  };
  Guest Admit(Fd listening, std::string key, Tenant tenant);
  void Dismiss(const Guest& guest);
  // The way in of an environment's episode: a key that is served at the gateway's own address, too.
  void Invite(const std::string& key, Tenant tenant);
  void Uninvite(const std::string& key);
  // What the engine cached for the tenant is not used again.
  void ForgetPages(const std::string& tenant);

  uint16_t port() const { return http_->port(); }
  std::string url() const { return http_->url(); }
  GatewayLoop::Counts counts() const { return loop_.counts(); }
  // For people, as JSON (docs/api.md).
  std::string FiguresJson() const;

  void Over(const RequestReport& report) override;

 private:
  Gateway(GatewayOptions options, const ServedPolicy& policy, EnginePort& engine,
          TurnRecorder& recorder, const Clock& clock, Metrics& metrics);
  Status Listen();

  HttpRoute Route(const HttpRequest& whole);
  void TakePlace(const HttpRequest& head, const Tenant& tenant, HttpRoute& route);
  std::optional<Tenant> TenantOf(const HttpRequest& request) const;
  bool IsOperators(const HttpRequest& request) const;
  void Serve(HttpRequest whole, std::unique_ptr<HttpReply> reply);
  HttpResponse Refuse(const HttpRequest& request, int status, std::string_view why);
  HttpResponse AnswerGet(const HttpRequest& request, const std::optional<Tenant>& tenant,
                         const HttpHeaders& headers);
  bool ChoosePolicy(Api api, AskedTurn& turn);
  // The model and its adapters; of a tenant that is bound to one, that alone.
  std::vector<ServedModel> ModelsFor(const std::optional<Tenant>& tenant) const;
  void Ask(Api api, HttpRequest request, std::unique_ptr<AskedTurn> turn);
  void ChangeAdapters(const HttpRequest& request, AskedTurn& turn);
  void TakeFeedback(HttpRequest request, const Tenant& tenant, std::unique_ptr<AskedTurn> turn);
  void Count(AskedTurn& turn, const TurnQuestion& question);
  void Detokenize(AskedTurn& turn);
  bool Understand(Api api, const HttpRequest& request, AskedTurn& turn);
  // Headers of the answer that say what of the request is not done.
  void Warn(AskedTurn& turn) const;
  // Tells the client and those who watch.
  void FailEarly(Api api, AskedTurn& turn, const ApiError& error);
  ServedModel Model(std::string name) const;

  const GatewayOptions options_;
  const ServedPolicy& policy_;
  TurnRecorder& recorder_;
  EnginePort& engine_;
  const Clock& clock_;
  Metrics& metrics_;
  const int64_t started_s_;
  const KeyFile keys_;
  GatewayMetrics metric_figures_;
  GatewayFigures figures_;
  std::unique_ptr<AccessLog> access_log_;
  PassingKeys guests_;
  PassingKeys invited_;
  Admission admission_;
  AnswerConstraints constraints_;
  const Cors cors_;
  GatewayLoop loop_;
  LoopRunner runner_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tidemill
