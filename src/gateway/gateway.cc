#include "gateway/gateway.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/hash.h"
#include "core/random.h"
#include "gateway/request_headers.h"
#include "gateway/token_words.h"
#include "gateway/wire_json.h"
#include "http/access.h"

namespace tidemill {
namespace {

constexpr size_t kGuestConnections = 64;  // of one agent
constexpr std::string_view kFeedbackPath = "/v1/feedback";
constexpr size_t kFeedbackBytesMax = 64 * 1024;
constexpr size_t kMcpBytesMax = size_t{4} << 20;

bool IsApiPath(const std::string& path) {
  return path == kMcpPath || path == "/v1" || path.rfind("/v1/", 0) == 0 ||
         ApiOfPath(path).has_value();
}

// Errors of paths that are no API's have OpenAI's shape, or Anthropic's for its clients.
Api ShapeFor(const HttpRequest& request) {
  if (const auto api = ApiOfPath(request.path)) return *api;
  return request.Header("anthropic-version").empty() ? Api::kChat : Api::kMessages;
}

void Impose(const TurnSampling& from, SamplingFields& to) {
  to.temperature = from.sampling.temperature;
  to.top_p = from.sampling.top_p;
  to.top_k = from.sampling.top_k;
  to.min_p = from.sampling.min_p;
  to.seed = static_cast<int64_t>(from.seed);
  to.presence_penalty = to.frequency_penalty = 0;
  to.repetition_penalty = 1;
  to.logit_bias.clear();
  to.min_tokens = 0;
  to.ignore_eos = false;
  to.max_tokens =
      std::min<int64_t>(to.max_tokens.value_or(from.max_new_tokens), from.max_new_tokens);
}

// Of what came from a client: nothing that a header cannot hold.
std::string HeaderText(const std::string& text) {
  std::string safe = text.substr(0, 64);
  std::replace_if(
      safe.begin(), safe.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return safe;
}

ApiError NoKey() {
  return {.status = 401,
          .message = "No valid API key: send Authorization: Bearer KEY or x-api-key",
          .code = "invalid_api_key"};
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
      constraints_(policy),
      cors_(options_.cors),
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
  if (options_.own_thread) {
    runner_.Add(loop_);
    TM_RETURN_IF_ERROR(runner_.Start());
  }
  HttpOptions http;
  http.address = options_.host;
  http.port = options_.port;
  http.own_access = true;
  http.other_origins = cors_.on();
  http.changes = options_.mcp != nullptr;
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
  if (options_.own_thread) (void)runner_.Stop();
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

void Gateway::Invite(const std::string& key, Tenant tenant) {
  invited_.Add(key, std::move(tenant));
}

void Gateway::Uninvite(const std::string& key) {
  invited_.Remove(key);
}

// Who comes out of a box is an agent, and nobody else: without its key it is no one.
std::optional<Tenant> Gateway::TenantOf(const HttpRequest& request) const {
  const std::string_view bearer = request.Header("authorization"),
                         key = request.Header("x-api-key");
  if (request.entrance != 0) return guests_.Find(bearer, key);
  if (auto tenant = invited_.Find(bearer, key)) return tenant;
  return keys_.Find(bearer, key);
}

bool Gateway::IsOperators(const HttpRequest& request) const {
  return options_.operate && request.entrance == 0 && request.path.rfind(kLivePath, 0) == 0;
}

std::string Gateway::FiguresJson() const {
  return figures_.Json({.model = policy_.name,
                        .counts = loop_.counts(),
                        .engine = engine_.Stats(),
                        .wall_ms = clock_.WallMs()});
}

HttpRoute Gateway::Route(const HttpRequest& whole) {
  const HttpRequest head = WithSessionOfPath(whole);
  HttpRoute route;
  route.serve = true;
  route.aside = IsOperators(head);
  route.body_bytes_max = ApiOfPath(head.path)         ? options_.body_bytes_max
                         : head.path == kFeedbackPath ? kFeedbackBytesMax
                         : head.path == kMcpPath      ? kMcpBytesMax
                                                      : 4096;
  if (cors_.Refuses(head)) {
    route.refusal = ErrorReply(
        ShapeFor(head),
        {.status = 403, .message = "Pages of this origin may not ask (gateway.cors)"}, {});
    return route;
  }
  if ((head.method == "PUT" || head.method == "DELETE") && head.path != kMcpPath) {
    route.refusal = Refuse(head, 405, "only GET, HEAD and POST are supported");
    return route;
  }
  if (head.method == "OPTIONS") {
    route.refusal = cors_.Preflight(head);
    return route;
  }
  const bool metrics = head.path == "/metrics";
  if (!IsApiPath(head.path) && !metrics) return route;
  const std::optional<Tenant> tenant = TenantOf(head);
  if (!tenant || (metrics && head.entrance != 0)) {
    auto told = cors_.HeadersFor(head);
    told.emplace_back("WWW-Authenticate", "Bearer");
    route.refusal = ErrorReply(ShapeFor(head), NoKey(), told);
    return route;
  }
  if (metrics && !tenant->metrics) {
    route.refusal = ErrorReply(
        ShapeFor(head),
        {.status = 403,
         .message = "The metrics show all tenants; a key reads them if its line says metrics=yes"},
        {});
    return route;
  }
  route.tenant = tenant->id;
  const bool asks = ApiOfPath(head.path).has_value() || head.path == kFeedbackPath;
  if (asks && head.method == "POST") TakePlace(head, *tenant, route);
  return route;
}

// Before the body is read: who may not come in now need not send it.
void Gateway::TakePlace(const HttpRequest& head, const Tenant& tenant, HttpRoute& route) {
  Admission::Entry entry = admission_.Enter(tenant, clock_.Now(), head.entrance);
  if (entry.place) {
    route.hold = std::move(entry.place);
    return;
  }
  const ApiError error{.status = 429, .message = entry.why, .code = "rate_limit_exceeded"};
  RequestReport report{.method = head.method, .path = head.path, .tenant = tenant.name};
  report.request_id = NewRequestId();
  report.user_agent = head.Header("user-agent");
  report.status = error.status;
  report.error = error.code;
  if (!tenant.session.empty()) recorder_.Refused(tenant.session, error.status, error.message);
  route.refusal =
      ErrorReply(ShapeFor(head), error, RequestHeaders(report.request_id), entry.retry_after);
  Over(report);
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

std::vector<ServedModel> Gateway::ModelsFor(const std::optional<Tenant>& tenant) const {
  if (tenant && !tenant->policy.empty()) return {Model(tenant->policy)};
  std::vector<ServedModel> models = {Model(policy_.name)};
  if (options_.adapters != nullptr) {
    for (std::string& name : options_.adapters->names()) models.push_back(Model(std::move(name)));
  }
  return models;
}

HttpResponse Gateway::AnswerGet(const HttpRequest& request, const std::optional<Tenant>& tenant,
                                const HttpHeaders& headers) {
  constexpr std::string_view kModels = "/v1/models";
  const std::string& path = request.path;
  const bool anthropic = !request.Header("anthropic-version").empty();
  HttpResponse response;
  response.headers = headers;
  if (path == "/healthz") return TextResponse(200, "ok\n");
  // As llama.cpp, vLLM and Ollama answer those who look whether they are there.
  if (path == "/health" || path == "/v1/health") {
    response.body = R"({"status":"ok"})";
    return response;
  }
  if (path == "/ping") return TextResponse(200, "pong\n");
  if (path == "/version" || path == "/api/version") {
    response.body = DumpWire({{"version", options_.version}});
    return response;
  }
  if (path == "/" || path == "/api/hello") return TextResponse(200, "tidemill\n");
  if (path == "/metrics") return MetricsResponse(metrics_.Text());
  if (path == kModels) {
    response.body = ModelsBody(ModelsFor(tenant), anthropic);
    return response;
  }
  if (path.rfind(std::string(kModels) + "/", 0) == 0) {
    const std::string name = path.substr(kModels.size() + 1);
    const std::vector<ServedModel> models = ModelsFor(tenant);
    const bool known = std::any_of(models.begin(), models.end(),
                                   [&](const ServedModel& model) { return model.name == name; });
    if (known || !options_.strict_model) {
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
  turn->place = std::move(request.hold);
  RequestReport& report = turn->report;
  report.request_id = NewRequestId();
  turn->head.id = report.request_id.substr(kRequestIdPrefix.size());
  turn->head.created_s = clock_.WallMs() / 1000;
  turn->reply_headers = RequestHeaders(report.request_id);
  for (auto& header : cors_.HeadersFor(request)) turn->reply_headers.push_back(std::move(header));
  report.method = request.method;
  report.path = request.path;
  report.user_agent = request.Header("user-agent");
  const std::optional<Tenant> tenant = TenantOf(request);
  if (tenant) turn->tenant = *tenant;
  if (tenant && IsApiPath(request.path)) report.tenant = tenant->name;
  if (IsOperators(request)) {
    HttpResponse response = options_.operate(request);
    report.status = response.status;
    turn->reply->Send(std::move(response));
    return Over(report);
  }
  if (request.path == kMcpPath && tenant && options_.mcp != nullptr) {
    report.status = 200;  // what is said there is no turn
    Over(report);
    return options_.mcp->Answer(*tenant, std::move(request), std::move(turn->reply));
  }
  const auto api = request.method == "POST" ? ApiOfPath(request.path) : std::nullopt;
  if (api && tenant) return Ask(*api, std::move(request), std::move(turn));
  if (api) {  // the key was taken back since the head came
    return FailEarly(*api, *turn, NoKey());
  }
  if (request.method == "POST" && request.path == kFeedbackPath && tenant) {
    return TakeFeedback(std::move(request), *tenant, std::move(turn));
  }
  const bool changes = request.path == kLoadAdapterPath || request.path == kUnloadAdapterPath;
  if (request.method == "POST" && changes && tenant && request.entrance == 0 &&
      options_.adapters != nullptr) {
    return ChangeAdapters(request, *turn);
  }
  if (request.method == "POST") {
    return FailEarly(ShapeFor(request), *turn,
                     {.status = 404, .message = "There is nothing at POST " + request.path});
  }
  HttpResponse response = AnswerGet(request, tenant, turn->reply_headers);
  report.status = response.status;
  turn->reply->Send(std::move(response));
  // Probes would be most of the log.
  for (const char* probe : {"/healthz", "/health", "/v1/health", "/ping", "/metrics"}) {
    if (request.path == probe) return;
  }
  Over(report);
}

void Gateway::ChangeAdapters(const HttpRequest& request, AskedTurn& turn) {
  ApiError error;
  const std::optional<std::string> done = options_.adapters->Answer(request, error);
  if (!done) return FailEarly(ShapeFor(request), turn, error);
  HttpResponse response = TextResponse(200, *done + "\n");
  for (auto& header : turn.reply_headers) response.headers.push_back(std::move(header));
  turn.report.total_s = Seconds(clock_.Now() - turn.arrived);
  turn.reply->Send(std::move(response));
  Over(turn.report);
}

void Gateway::FailEarly(Api api, AskedTurn& turn, const ApiError& error) {
  turn.report.status = error.status;
  turn.report.error = error.code.empty() ? std::string(ErrorType(api, error.status)) : error.code;
  turn.report.total_s = Seconds(clock_.Now() - turn.arrived);
  // Before the client can act on it: an agent may end, and its session with it.
  if (!turn.tenant.session.empty()) {
    recorder_.Refused(turn.tenant.session, error.status, error.message);
  }
  turn.reply->Send(ErrorReply(api, error, turn.reply_headers));
  Over(turn.report);
}

// By the name in the request, or the tenant's own. False: the client was told why not.
bool Gateway::ChoosePolicy(Api api, AskedTurn& turn) {
  const std::string& bound = turn.tenant.policy;
  const std::string& base = bound.empty() ? policy_.name : bound;
  turn.head.model = turn.request.model.empty() ? base : turn.request.model;
  const auto find = [&](const std::string& name) {
    return options_.adapters == nullptr || name == policy_.name ? std::nullopt
                                                                : options_.adapters->Find(name);
  };
  const std::optional<PolicyId> named = find(turn.head.model);
  const std::optional<PolicyId> answers = bound.empty() ? named : find(bound);
  if (!bound.empty() && !answers && bound != policy_.name) {
    FailEarly(api, turn, {.status = 503, .message = "The model \"" + bound + "\" is not loaded"});
    return false;
  }
  if (answers) turn.policy = *answers;
  const bool another = !bound.empty() && named && named != answers;
  const bool unknown = !named && turn.head.model != policy_.name;
  if (another || (unknown && options_.strict_model)) {
    FailEarly(api, turn,
              {.status = 404,
               .message = "The model \"" + turn.request.model + "\" does not exist; there is \"" +
                          base + "\"",
               .param = "model",
               .code = "model_not_found"});
    return false;
  }
  if (unknown && options_.adapters != nullptr) options_.adapters->NoteUnknown(turn.head.model);
  return true;
}

// False: the client was told why not.
bool Gateway::Understand(Api api, const HttpRequest& request, AskedTurn& turn) {
  ParsedRequest parsed = ParseRequest(api, request.body, options_.limits);
  if (!parsed.ok()) {
    FailEarly(api, turn, parsed.error);
    return false;
  }
  turn.request = std::move(*parsed.request);
  if (!ChoosePolicy(api, turn)) return false;
  if (turn.request.prefill && !recorder_.Continues()) {
    FailEarly(api, turn,
              {.message = "messages: a message is not continued where sessions are recorded",
               .param = "messages"});
    return false;
  }
  if (!turn.request.tools.empty() && turn.request.tool_choice.kind != ToolChoice::Kind::kNone &&
      policy_.format.tools == ToolFormat::kNone && policy_.chat) {
    FailEarly(
        api, turn,
        {.message = "tools: this server shows the model none (gateway.tool_format = \"none\")",
         .param = "tools",
         .code = "unsupported_parameter"});
    return false;
  }
  turn.headers = HeadersToKeep(request.headers, turn.tenant);
  return true;
}

void Gateway::Warn(AskedTurn& turn) const {
  const auto warn = [&](const std::string& text) {
    turn.reply_headers.emplace_back("x-tidemill-warning", text);
  };
  if (!turn.request.tools.empty() && policy_.tool_source != ToolSource::kTemplate) {
    warn(ToolNote(policy_));
  }
  if (const std::string strict = StrictWarning(policy_, turn.request); !strict.empty()) {
    warn(strict);
  }
  if (turn.request.unknown.empty()) return;
  std::string names;
  for (const std::string& name : turn.request.unknown) {
    names += (names.empty() ? "" : ", ") + HeaderText(name);
  }
  warn("ignored, unknown: " + names);
}

void Gateway::Ask(Api api, HttpRequest request, std::unique_ptr<AskedTurn> turn) {
  if (!Understand(api, request, *turn)) return;
  if (api == Api::kDetokenize) return Detokenize(*turn);
  const TurnQuestion question{.request = turn->request,
                              .tenant = turn->tenant,
                              .headers = turn->headers,
                              .request_id = turn->report.request_id,
                              .body_sha256 = Sha256Hex(request.body),
                              .wall_ms = clock_.WallMs(),
                              .prompt_tokens_max = CountedTokens(options_.plan)};
  request.body = {};
  const auto pin = PinnedVersion(turn->headers);
  if (!pin.ok()) return FailEarly(api, *turn, ErrorOf(pin.status(), false));
  Result<TurnPrompt> prompt = recorder_.Prepare(question);
  if (!prompt.ok()) return FailEarly(api, *turn, ErrorOf(prompt.status(), false));
  turn->prompt = std::move(*prompt);
  turn->client_pinned = pin->has_value() && !turn->prompt.pin_version;
  if (turn->client_pinned) turn->prompt.pin_version = *pin;
  if (!turn->prompt.session_name.empty()) {
    turn->reply_headers.emplace_back("x-session-id", turn->prompt.session_name);
  }
  Warn(*turn);
  if (CountsOnly(api)) return Count(*turn, question);
  if (turn->prompt.sampling) Impose(*turn->prompt.sampling, turn->request.sampling);
  auto constraint = constraints_.For(turn->request, turn->prompt.thinking_open);
  TurnPlan plan;
  if (constraint.ok()) {
    plan = PlanTurns(policy_, options_.plan, turn->request, turn->prompt,
                     {.seed = StableHash(turn->report.request_id), .constraint = *constraint});
  } else {
    plan.error = ApiError{.message = constraint.status().message(),
                          .param = turn->request.shape ? turn->request.shape->field : "tools",
                          .code = "unsupported_schema"};
  }
  if (plan.error) {
    for (int choice = 0; choice < ChoiceCount(turn->request); ++choice) {
      RecordedTurn nothing;
      nothing.ticket = turn->prompt.ticket;
      nothing.choice = choice;
      recorder_.Abandoned(std::move(nothing),
                          plan.too_long ? TurnLoss::kTooLong : TurnLoss::kRefused,
                          Invalid(plan.error->message));
    }
    return FailEarly(api, *turn, *plan.error);
  }
  turn->choices = std::move(plan.choices);
  if (turn->request.return_token_ids) turn->head.prompt_ids = turn->prompt.prompts;
  loop_.Submit(std::move(turn));
}

void Gateway::TakeFeedback(HttpRequest request, const Tenant& tenant,
                           std::unique_ptr<AskedTurn> turn) {
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

void Gateway::Detokenize(AskedTurn& turn) {
  Result<std::string> body = DetokenizedBody(policy_.tokenizer, turn.request.prompts.at(0).ids);
  if (!body.ok()) return FailEarly(Api::kDetokenize, turn, ErrorOf(body.status(), false));
  HttpResponse response;
  response.headers = turn.reply_headers;
  response.body = std::move(*body);
  turn.reply->Send(std::move(response));
  Over(turn.report);
}

void Gateway::Count(AskedTurn& turn, const TurnQuestion& question) {
  Answer answer;
  for (const auto& ids : turn.prompt.prompts) answer.usage.prompt += std::ssize(ids);
  if (turn.prompt.tokens_more > 0) {  // too long by far: nobody knows by how much
    const auto error = CheckPromptFits(question.request, static_cast<size_t>(answer.usage.prompt),
                                       turn.prompt.tokens_more, options_.plan.context_tokens);
    return FailEarly(question.request.api, turn, *error);
  }
  HttpResponse response;
  response.headers = turn.reply_headers;
  response.body = question.request.api == Api::kTokenize
                      ? TokenizedBody(policy_.tokenizer, question.request,
                                      turn.prompt.prompts.at(0), options_.plan.context_tokens)
                      : WholeBody(question.request, turn.head, answer);
  turn.reply->Send(std::move(response));
  Over(turn.report);
}

}  // namespace tidemill
