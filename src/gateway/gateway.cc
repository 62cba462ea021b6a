#include "gateway/gateway.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>

#include "core/hash.h"
#include "core/random.h"
#include "core/secret.h"
#include "http/access.h"

namespace tidemill {
namespace {

constexpr size_t kRequestIdDigits = 24;
constexpr size_t kGuestConnections = 64;  // of one agent
constexpr std::string_view kFeedbackPath = "/v1/feedback";
constexpr size_t kFeedbackBytesMax = 64 * 1024;
constexpr const char* kSessionNameHeader = "x-tidemill-session";

// /s/NAME/v1/.. is /v1/.. with the session named in the header.
HttpRequest WithSessionOfPath(HttpRequest request) {
  if (request.path.rfind("/s/", 0) != 0) return request;
  const size_t end = request.path.find('/', 3);
  if (end == std::string::npos || end == 3) return request;
  request.headers[kSessionNameHeader] = request.path.substr(3, end - 3);
  request.path.erase(0, end);
  return request;
}

bool IsApiPath(const std::string& path) {
  return path == "/v1" || path.rfind("/v1/", 0) == 0;
}

// Errors of paths that are no API's have OpenAI's shape, or Anthropic's for its clients.
Api ShapeFor(const HttpRequest& request) {
  if (const auto api = ApiOfPath(request.path)) return *api;
  return request.Header("anthropic-version").empty() ? Api::kChat : Api::kMessages;
}

std::map<std::string, std::string> WithoutCredentials(std::map<std::string, std::string> headers) {
  for (const char* name : {"authorization", "x-api-key", "cookie", "proxy-authorization"}) {
    headers.erase(name);
  }
  return headers;
}

HttpHeaders RequestHeaders(const std::string& request_id) {
  return {{"x-request-id", request_id}, {"request-id", request_id}};
}

void Impose(const TurnSampling& from, SamplingFields& to) {
  to.temperature = from.sampling.temperature;
  to.top_p = from.sampling.top_p;
  to.top_k = from.sampling.top_k;
  to.min_p = from.sampling.min_p;
  to.seed = static_cast<int64_t>(from.seed);
  to.max_tokens =
      std::min<int64_t>(to.max_tokens.value_or(from.max_new_tokens), from.max_new_tokens);
}

ApiError NoKey() {
  return {.status = 401,
          .message = "No valid API key: send Authorization: Bearer KEY or x-api-key",
          .code = "invalid_api_key"};
}

// The version a request wants all its tokens from, by the header x-policy-version.
Result<std::optional<uint64_t>> PinOf(const std::map<std::string, std::string>& headers) {
  const auto it = headers.find("x-policy-version");
  if (it == headers.end()) return std::optional<uint64_t>();
  uint64_t version = 0;
  const char* end = it->second.data() + it->second.size();
  const auto [stop, error] = std::from_chars(it->second.data(), end, version);
  if (error != std::errc() || stop != end) {
    return Invalid("x-policy-version: must be a whole number");
  }
  return std::optional(version);
}

}  // namespace

Gateway::Gateway(GatewayOptions options, const ServedPolicy& policy, EnginePort& engine,
                 TurnRecorder& recorder, const Clock& clock, Metrics& metrics)
    : options_(std::move(options)),
      policy_(policy),
      recorder_(recorder),
      engine_(engine),
      clock_(clock),
      metrics_(metrics),
      started_s_(clock.WallMs() / 1000),
      keys_(options_.keys, options_.key_file),
      metric_figures_(metrics, policy.name),
      admission_(options_.admission),
      loop_(engine, recorder, policy, *this, options_.loop) {}

Result<std::unique_ptr<Gateway>> Gateway::Start(GatewayOptions options, const ServedPolicy& policy,
                                                EnginePort& engine, TurnRecorder& recorder,
                                                const Clock& clock, Metrics& metrics) {
  if (options.keys.open() && !IsLoopback(options.host)) {
    return Invalid("listening on " + options.host +
                   " requires API keys, because other machines can reach it (use --keys, or listen "
                   "on 127.0.0.1)");
  }
  std::unique_ptr<Gateway> gateway(
      new Gateway(std::move(options), policy, engine, recorder, clock, metrics));
  TM_RETURN_IF_ERROR(gateway->Listen());
  return gateway;
}

Status Gateway::Listen() {
  if (!options_.access_log.empty()) {
    TM_ASSIGN_OR_RETURN(access_log_, AccessLog::Open(options_.access_log, clock_));
  }
  runner_.Add(loop_);
  TM_RETURN_IF_ERROR(runner_.Start());
  HttpOptions http;
  http.address = options_.host;
  http.port = options_.port;
  http.own_access = true;
  http.give_way = false;
  http.connections_max = options_.connections_max;
  http.pending_max = options_.connections_max;
  http.workers = options_.workers;
  http.request_timeout = std::chrono::seconds(60);
  http.idle_timeout = std::chrono::seconds(120);
  http.write_timeout = std::chrono::seconds(60);
  HttpHandlers handlers;
  handlers.route = [this](const HttpRequest& head) { return Route(head); };
  handlers.serve = [this](HttpRequest request, std::unique_ptr<HttpReply> reply) {
    Serve(std::move(request), std::move(reply));
  };
  handlers.refuse = [this](const HttpRequest& request, int status, std::string_view why) {
    return Refuse(request, status, why);
  };
  handlers.answer = [](const HttpRequest&) { return ErrorResponse(404, "no such path"); };
  TM_ASSIGN_OR_RETURN(http_, HttpServer::Start(http, std::move(handlers)));
  return Ok();
}

Gateway::~Gateway() {
  http_.reset();
  (void)runner_.Stop();
  loop_.Detach();
}

Status Gateway::Drain(Duration patience) {
  return runner_.Drain(patience);
}

void Gateway::ForgetPages(const std::string& tenant) {
  engine_.ForgetTenant(KeyTenantId(tenant));
  if (tenant == Tenant().name) engine_.ForgetTenant(Tenant().id);  // of a gateway without keys
}

void Gateway::Over(const RequestReport& report) {
  metric_figures_.Over(report);
  figures_.Over(report, loop_.counts(), clock_.WallMs());
  if (access_log_) access_log_->Add(report);
}

Gateway::Guest Gateway::Admit(Fd listening, std::string key, Tenant tenant) {
  guests_.Add(key, std::move(tenant));
  return {.entrance = http_->AddEntrance(std::move(listening), kGuestConnections),
          .key = std::move(key)};
}

void Gateway::Dismiss(const Guest& guest) {
  http_->RemoveEntrance(guest.entrance);
  guests_.Remove(guest.key);
}

// Who comes out of a box is an agent, and nobody else: without its key it is no one.
std::optional<Tenant> Gateway::TenantOf(const HttpRequest& request) const {
  const std::string_view bearer = request.Header("authorization"),
                         key = request.Header("x-api-key");
  if (request.entrance != 0) return guests_.Find(bearer, key);
  return keys_.Find(bearer, key);
}

std::string Gateway::FiguresJson() const {
  return figures_.Json({.model = policy_.name,
                        .counts = loop_.counts(),
                        .engine = engine_.Stats(),
                        .wall_ms = clock_.WallMs()});
}

HttpRoute Gateway::Route(const HttpRequest& whole) const {
  const HttpRequest head = WithSessionOfPath(whole);
  HttpRoute route;
  route.serve = true;
  route.body_bytes_max = ApiOfPath(head.path)         ? options_.body_bytes_max
                         : head.path == kFeedbackPath ? kFeedbackBytesMax
                                                      : 4096;
  const bool metrics = head.path == "/metrics";
  const bool asks_key = IsApiPath(head.path) || metrics;
  if (asks_key && (!TenantOf(head) || (metrics && head.entrance != 0))) {
    route.refusal = ErrorReply(ShapeFor(head), NoKey(), {{"WWW-Authenticate", "Bearer"}});
  }
  return route;
}

HttpResponse Gateway::Refuse(const HttpRequest& request, int status, std::string_view why) {
  const ApiError error{.status = status, .message = std::string(why)};
  RequestReport report{.method = request.method, .path = request.path, .status = status};
  report.error = ErrorType(ShapeFor(request), status);
  Over(report);
  HttpResponse response = ErrorReply(ShapeFor(request), error, {});
  std::erase_if(response.headers, [](const auto& header) { return header.first == "Retry-After"; });
  return response;
}

ServedModel Gateway::Model(std::string name) const {
  return {.name = std::move(name),
          .created_s = started_s_,
          .context_tokens = options_.plan.context_tokens};
}

HttpResponse Gateway::AnswerGet(const HttpRequest& request, const HttpHeaders& headers) {
  constexpr std::string_view kModels = "/v1/models";
  const std::string& path = request.path;
  const bool anthropic = !request.Header("anthropic-version").empty();
  HttpResponse response;
  response.headers = headers;
  if (path == "/healthz") return TextResponse(200, "ok\n");
  if (path == "/" || path == "/api/hello") return TextResponse(200, "tidemill\n");
  if (path == "/metrics") return MetricsResponse(metrics_.Text());
  if (path == kModels) {
    response.body = ModelsBody(Model(policy_.name), anthropic);
    return response;
  }
  if (path.rfind(std::string(kModels) + "/", 0) == 0) {
    const std::string name = path.substr(kModels.size() + 1);
    if (name == policy_.name || !options_.strict_model) {
      response.body = ModelBody(Model(name), anthropic);
      return response;
    }
  }
  ApiError error{.status = 404, .message = "There is nothing at " + path};
  if (ApiOfPath(path)) error = {.status = 405, .message = path + " is asked with POST"};
  return ErrorReply(ShapeFor(request), error, headers);
}

void Gateway::Serve(HttpRequest whole, std::unique_ptr<HttpReply> reply) {
  HttpRequest request = WithSessionOfPath(std::move(whole));
  auto turn = std::make_unique<AskedTurn>();
  turn->arrived = clock_.Now();
  turn->reply = std::move(reply);
  turn->head.id = NewSecret().substr(0, kRequestIdDigits);
  turn->head.created_s = clock_.WallMs() / 1000;
  turn->reply_headers = RequestHeaders("req_" + turn->head.id);
  RequestReport& report = turn->report;
  report.request_id = "req_" + turn->head.id;
  report.method = request.method;
  report.path = request.path;
  report.user_agent = request.Header("user-agent");
  const std::optional<Tenant> tenant = TenantOf(request);
  if (tenant) turn->tenant = *tenant;
  if (tenant && IsApiPath(request.path)) report.tenant = tenant->name;
  if (options_.operate && request.path.rfind(kLivePath, 0) == 0) {
    HttpResponse response = options_.operate(request);
    report.status = response.status;
    turn->reply->Send(std::move(response));
    return Over(report);
  }
  const auto api = request.method == "POST" ? ApiOfPath(request.path) : std::nullopt;
  if (api && tenant) return Ask(*api, std::move(request), *tenant, std::move(turn));
  if (api) {  // the key was taken back since the head came
    return FailEarly(*api, *turn, NoKey());
  }
  if (request.method == "POST" && request.path == kFeedbackPath && tenant) {
    return TakeFeedback(std::move(request), *tenant, std::move(turn));
  }
  if (request.method == "POST") {
    return FailEarly(ShapeFor(request), *turn,
                     {.status = 404, .message = "There is nothing at POST " + request.path});
  }
  HttpResponse response = AnswerGet(request, turn->reply_headers);
  report.status = response.status;
  turn->reply->Send(std::move(response));
  // Probes would be most of the log.
  if (request.path != "/healthz" && request.path != "/metrics") Over(report);
}

void Gateway::FailEarly(Api api, AskedTurn& turn, const ApiError& error,
                        std::chrono::seconds retry_after) {
  turn.report.status = error.status;
  turn.report.error = error.code.empty() ? std::string(ErrorType(api, error.status)) : error.code;
  turn.report.total_s = Seconds(clock_.Now() - turn.arrived);
  // Before the client can act on it: an agent may end, and its session with it.
  if (!turn.tenant.session.empty()) {
    recorder_.Refused(turn.tenant.session, error.status, error.message);
  }
  turn.reply->Send(ErrorReply(api, error, turn.reply_headers, retry_after));
  Over(turn.report);
}

// False: the client was told why not.
bool Gateway::Understand(Api api, const HttpRequest& request, AskedTurn& turn) {
  ParsedRequest parsed = ParseRequest(api, request.body, options_.limits);
  if (!parsed.ok()) {
    FailEarly(api, turn, parsed.error);
    return false;
  }
  turn.request = std::move(*parsed.request);
  turn.head.model = turn.request.model.empty() ? policy_.name : turn.request.model;
  if (options_.strict_model && turn.request.model != policy_.name) {
    FailEarly(api, turn,
              {.status = 404,
               .message = "The model \"" + turn.request.model + "\" does not exist; there is \"" +
                          policy_.name + "\"",
               .param = "model",
               .code = "model_not_found"});
    return false;
  }
  turn.headers = WithoutCredentials(request.headers);
  return true;
}

void Gateway::Ask(Api api, HttpRequest request, const Tenant& tenant,
                  std::unique_ptr<AskedTurn> turn) {
  Admission::Entry entry = admission_.Enter(tenant, turn->arrived);
  if (!entry.place) {
    return FailEarly(api, *turn,
                     {.status = 429, .message = entry.why, .code = "rate_limit_exceeded"},
                     entry.retry_after);
  }
  turn->place = std::move(entry.place);
  if (!Understand(api, request, *turn)) return;
  const TurnQuestion question{.request = turn->request,
                              .tenant = turn->tenant,
                              .headers = turn->headers,
                              .request_id = turn->report.request_id,
                              .body_sha256 = Sha256Hex(request.body),
                              .wall_ms = clock_.WallMs()};
  request.body.clear();
  const auto pin = PinOf(turn->headers);
  if (!pin.ok()) return FailEarly(api, *turn, ErrorOf(pin.status(), false));
  Result<TurnPrompt> prompt = recorder_.Prepare(question);
  if (!prompt.ok()) return FailEarly(api, *turn, ErrorOf(prompt.status(), false));
  turn->prompt = std::move(*prompt);
  if (!turn->prompt.pin_version) turn->prompt.pin_version = *pin;
  if (!turn->prompt.session_name.empty()) {
    turn->reply_headers.emplace_back("x-session-id", turn->prompt.session_name);
  }
  if (api == Api::kCountTokens) return Count(*turn, question);
  if (turn->prompt.sampling) Impose(*turn->prompt.sampling, turn->request.sampling);
  TurnPlan plan = PlanTurns(policy_, options_.plan, turn->request, turn->prompt,
                            StableHash(turn->report.request_id));
  if (plan.error) {
    for (int choice = 0; choice < ChoiceCount(turn->request); ++choice) {
      RecordedTurn nothing;
      nothing.ticket = turn->prompt.ticket;
      nothing.choice = choice;
      recorder_.Abandoned(std::move(nothing), Invalid(plan.error->message));
    }
    return FailEarly(api, *turn, *plan.error);
  }
  turn->choices = std::move(plan.choices);
  if (turn->request.return_token_ids) turn->head.prompt_ids = turn->prompt.prompts;
  loop_.Submit(std::move(turn));
}

void Gateway::TakeFeedback(HttpRequest request, const Tenant& tenant,
                           std::unique_ptr<AskedTurn> turn) {
  Admission::Entry entry = admission_.Enter(tenant, turn->arrived);
  if (!entry.place) {
    return FailEarly(Api::kChat, *turn,
                     {.status = 429, .message = entry.why, .code = "rate_limit_exceeded"},
                     entry.retry_after);
  }
  turn->place = std::move(entry.place);
  const FeedbackPost post{.tenant = tenant,
                          .body = request.body,
                          .session = std::string(request.Header(kSessionNameHeader)),
                          .wall_ms = clock_.WallMs()};
  // Shared: the answer may come from another thread, or inside of the call.
  const std::shared_ptr<AskedTurn> asked = std::move(turn);
  recorder_.TakeFeedback(post, [this, asked](Result<std::string> stored) {
    if (!stored.ok()) {
      ApiError error = ErrorOf(stored.status(), false);
      if (stored.status().code() == Code::kNotFound) error.status = 404;
      return FailEarly(Api::kChat, *asked, error);
    }
    HttpResponse response;
    response.headers = asked->reply_headers;
    response.body = std::move(*stored);
    asked->report.total_s = Seconds(clock_.Now() - asked->arrived);
    asked->reply->Send(std::move(response));
    Over(asked->report);
  });
}

void Gateway::Count(const AskedTurn& turn, const TurnQuestion& question) {
  Answer answer;
  for (const auto& ids : turn.prompt.prompts) answer.usage.prompt += std::ssize(ids);
  HttpResponse response;
  response.headers = turn.reply_headers;
  response.body = WholeBody(question.request, turn.head, answer);
  turn.reply->Send(std::move(response));
  Over(turn.report);
}

}  // namespace tidemill
