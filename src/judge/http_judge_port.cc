#include "judge/http_judge_port.h"

#include <nlohmann/json.hpp>

#include "core/log.h"
#include "core/text.h"
#include "http/endpoint_key.h"

namespace tidemill {
namespace {

using ChatJson = nlohmann::json;

constexpr size_t kAnswerBytesMax = 1 << 20;
constexpr size_t kTokensKept = 256;
constexpr size_t kAlternativesKept = 20;
constexpr size_t kSaidMax = 200;

uint64_t TokensIn(const ChatJson& usage, const char* name) {
  const auto it = usage.find(name);
  return it != usage.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}

TokenChoices ReadToken(const ChatJson& entry) {
  TokenChoices token;
  const auto text = entry.find("token");
  if (text != entry.end() && text->is_string()) token.token = text->get<std::string>();
  const auto top = entry.find("top_logprobs");
  if (top == entry.end() || !top->is_array()) return token;
  for (const ChatJson& other : *top) {
    if (token.alternatives.size() == kAlternativesKept) break;
    if (!other.is_object() || !other.contains("token") || !other.contains("logprob")) continue;
    if (!other["token"].is_string() || !other["logprob"].is_number()) continue;
    token.alternatives.emplace_back(other["token"].get<std::string>(),
                                    other["logprob"].get<double>());
  }
  return token;
}

}  // namespace

std::string QuestionBody(const JudgeConfig& judge, const JudgeCall& call) {
  ChatJson request;
  request["model"] = judge.model;
  request["messages"] = ChatJson::array();
  if (!call.prompt.system.empty())
    request["messages"].push_back({{"role", "system"}, {"content", call.prompt.system}});
  request["messages"].push_back({{"role", "user"}, {"content", call.prompt.user}});
  request["temperature"] = judge.temperature;
  request["max_tokens"] = judge.max_tokens;
  request["seed"] = static_cast<int64_t>(call.seed >> 33);
  if (judge.answer == "token") {
    request["logprobs"] = true;
    request["top_logprobs"] = 20;
  }
  return request.dump(-1, ' ', false, ChatJson::error_handler_t::replace);
}

Result<JudgeReply> ReadChatCompletion(std::string_view body) {
  const ChatJson json = ChatJson::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto wrong = [&](const std::string& what) {
    return Unavailable("its answer is no chat completion: " + what);
  };
  if (json.is_discarded() || !json.is_object())
    return wrong("it is no JSON object: \"" + Beginning(body, kSaidMax) + "\"");
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty() ||
      !(*choices)[0].is_object())
    return wrong("it has no \"choices\"");
  const ChatJson& choice = (*choices)[0];
  const auto message = choice.find("message");
  if (message == choice.end() || !message->is_object() || !message->contains("content") ||
      !(*message)["content"].is_string())
    return wrong("its first choice has no text");
  JudgeReply reply;
  reply.text = (*message)["content"].get<std::string>();
  const auto logprobs = choice.find("logprobs");
  if (logprobs != choice.end() && logprobs->is_object() && logprobs->contains("content") &&
      (*logprobs)["content"].is_array()) {
    for (const ChatJson& entry : (*logprobs)["content"]) {
      if (!entry.is_object() || reply.tokens.size() == kTokensKept) break;
      reply.tokens.push_back(ReadToken(entry));
    }
  }
  const auto usage = json.find("usage");
  if (usage != json.end() && usage->is_object()) {
    reply.tokens_in = TokensIn(*usage, "prompt_tokens");
    reply.tokens_out = TokensIn(*usage, "completion_tokens");
  }
  return reply;
}

Result<std::unique_ptr<HttpJudgePort>> HttpJudgePort::Make(const std::vector<JudgeConfig>& judges) {
  std::unique_ptr<HttpJudgePort> port(new HttpJudgePort);
  for (const JudgeConfig& keys : judges) {
    const std::string name = "judge \"" + keys.name + "\"";
    Endpoint& endpoint = port->endpoints_[keys.name];
    endpoint.keys = keys;
    Result<HttpUrl> url = ParseHttpUrl(keys.endpoint);
    if (!url.ok()) return url.status().WithContext(name + ": endpoint");
    endpoint.url = std::move(*url);
    Result<std::string> key = ReadEndpointKey(keys.key_file, keys.key_env);
    if (!key.ok()) return Invalid(name + ": " + key.status().message());
    endpoint.key = std::move(*key);
    for (uint32_t i = 0; i < keys.concurrency; ++i) {
      HttpPeerOptions options;
      options.ca_file = keys.ca_file;
      options.body_max = kAnswerBytesMax;
      auto peer = HttpPeer::Make(endpoint.url, options);
      if (!peer.ok()) return peer.status().WithContext(name);
      endpoint.peers.push_back(std::move(*peer));
    }
  }
  for (auto& [name, endpoint] : port->endpoints_) {
    endpoint.queue = std::make_unique<WorkQueue<JudgeCall>>(kCallsMax);
    for (const auto& peer : endpoint.peers) {
      endpoint.queue->Start([&port = *port, &endpoint = endpoint, &peer = *peer](
                                const JudgeCall& call) { port.Answer(endpoint, peer, call); });
    }
  }
  return port;
}

HttpJudgePort::~HttpJudgePort() {
  for (auto& [name, endpoint] : endpoints_) {
    if (endpoint.queue) endpoint.queue->Stop();
    for (const auto& peer : endpoint.peers) peer->Interrupt();
  }
}

void HttpJudgePort::Submit(JudgeCall call) {
  const auto endpoint = endpoints_.find(call.judge);
  if (endpoint == endpoints_.end()) {
    events_.Post({call.tag, Invalid("the judge has no endpoint"), {}, {}, {}});
    return;
  }
  endpoint->second.queue->Put(std::move(call));
}

void HttpJudgePort::Answer(const Endpoint& endpoint, HttpPeer& peer, const JudgeCall& call) {
  const Time began = std::chrono::steady_clock::now();
  JudgeDone done = Ask(endpoint, peer, call);
  done.took = std::chrono::steady_clock::now() - began;
  if (!done.status.ok()) {
    LogEvery(std::chrono::minutes(1), "judge " + call.judge, LogLevel::kWarn, "a judge failed",
             {{"judge", call.judge}, {"why", done.status.message()}});
  }
  events_.Post(std::move(done));
}

JudgeDone HttpJudgePort::Ask(const Endpoint& endpoint, HttpPeer& peer, const JudgeCall& call) {
  JudgeDone done;
  done.tag = call.tag;
  HttpAsk ask;
  ask.target = (endpoint.url.path == "/" ? "" : endpoint.url.path) + "/chat/completions";
  ask.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
  if (!endpoint.key.empty()) ask.headers.emplace_back("Authorization", "Bearer " + endpoint.key);
  ask.body = QuestionBody(endpoint.keys, call);
  const Result<HttpAnswer> answer = peer.Ask(ask, endpoint.keys.timeout);
  if (!answer.ok()) {
    done.status = answer.status();
    return done;
  }
  if (answer->status == 200) {
    Result<JudgeReply> reply = ReadChatCompletion(answer->body);
    if (reply.ok())
      done.reply = std::move(*reply);
    else
      done.status = reply.status();
    return done;
  }
  done.wait = answer->retry_after;
  const std::string said = endpoint.url.Authority() + " answers " + std::to_string(answer->status) +
                           ": " + Beginning(answer->body, kSaidMax);
  const bool for_good = answer->status >= 400 && answer->status < 500 && answer->status != 408 &&
                        answer->status != 425 && answer->status != 429;
  done.status = for_good ? Invalid(said) : Unavailable(said);
  return done;
}

}  // namespace tidemill
