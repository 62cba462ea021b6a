#include "teacher/http_teacher.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/log.h"
#include "core/text.h"
#include "http/endpoint_key.h"

namespace tidemill {
namespace {

using EchoJson = nlohmann::json;

constexpr size_t kEchoBytesMax = 64 << 20;
constexpr uint32_t kConnectionsMax = 16;
constexpr size_t kSaidBytes = 200;
constexpr int32_t kProbedTokens = 16;

}  // namespace

std::string EchoRequest(const std::string& model, const std::vector<TokenId>& ids) {
  EchoJson request;
  request["model"] = model;
  request["prompt"] = ids;
  request["echo"] = true;
  request["logprobs"] = 1;
  request["max_tokens"] = 1;  // some endpoints refuse 0; what it writes is not read
  request["temperature"] = 1;
  return request.dump();
}

Result<EchoedTokens> ReadEcho(std::string_view body, size_t count) {
  const EchoJson json = EchoJson::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto wrong = [&](const std::string& what) {
    return Unavailable("its answer has no scores: " + what);
  };
  if (json.is_discarded() || !json.is_object())
    return wrong("it is no JSON object: \"" + Beginning(body, kSaidBytes) + "\"");
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty() ||
      !(*choices)[0].is_object())
    return wrong("it has no \"choices\"");
  const auto logprobs = (*choices)[0].find("logprobs");
  if (logprobs == (*choices)[0].end() || !logprobs->is_object())
    return wrong("its first choice has no \"logprobs\"");
  const auto scores = logprobs->find("token_logprobs"), texts = logprobs->find("tokens");
  if (scores == logprobs->end() || !scores->is_array() || scores->size() < count)
    return wrong("\"token_logprobs\" must have one for each of the " + std::to_string(count) +
                 " ids of the prompt; does the endpoint know \"echo\"?");
  EchoedTokens echoed;
  for (size_t i = 0; i < count; ++i) {
    const bool known = (*scores)[i].is_number();
    echoed.logprobs.push_back(known ? (*scores)[i].get<float>() : 0.0f);
    echoed.known.push_back(known);
    const bool text = texts != logprobs->end() && texts->is_array() && i < texts->size() &&
                      (*texts)[i].is_string();
    echoed.texts.push_back(text ? (*texts)[i].get<std::string>() : "");
  }
  return echoed;
}

Status CheckEchoed(const EchoedTokens& echoed, const std::vector<TokenId>& ids,
                   const Tokenizer& tokens) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string ours = tokens.Decode(std::vector<TokenId>{ids[i]});
    // An endpoint without texts, or a part of a character, tells nothing.
    if (echoed.texts.at(i).empty() || ours.find("\xEF\xBF\xBD") != std::string::npos) continue;
    if (echoed.texts[i] == ours) continue;
    return Invalid("token " + std::to_string(ids[i]) + " is \"" + Beginning(echoed.texts[i], 40) +
                   "\" there, the policy's is \"" + Beginning(ours, 40) +
                   "\"; a teacher must have the policy's tokenizer");
  }
  return Ok();
}

Result<std::unique_ptr<HttpTeacher>> HttpTeacher::Make(const TeacherConfig& keys,
                                                       const Tokenizer& tokens) {
  std::unique_ptr<HttpTeacher> teacher(new HttpTeacher(keys));
  Result<HttpUrl> url = ParseHttpUrl(keys.endpoint);
  if (!url.ok()) return url.status().WithContext("teacher.endpoint");
  teacher->url_ = std::move(*url);
  Result<std::string> key = ReadEndpointKey(keys.key_file, keys.key_env);
  if (!key.ok()) return key.status().WithContext("teacher.endpoint");
  teacher->key_ = std::move(*key);
  for (uint32_t i = 0; i < std::min(keys.concurrency, kConnectionsMax); ++i) {
    HttpPeerOptions options;
    options.ca_file = keys.ca_file;
    options.body_max = kEchoBytesMax;
    auto peer = HttpPeer::Make(teacher->url_, options);
    if (!peer.ok()) return peer.status().WithContext("teacher.endpoint");
    teacher->peers_.push_back(std::move(*peer));
  }
  TM_RETURN_IF_ERROR(teacher->CheckTokenizer(tokens).WithContext("teacher.endpoint"));
  for (const auto& peer : teacher->peers_) {
    teacher->queue_.Start([&teacher = *teacher, &peer = *peer](const TeacherCall& call) {
      teacher.Answer(peer, call);
    });
  }
  return teacher;
}

// Ids from all over the vocabulary, to see that they are the same tokens there.
Status HttpTeacher::CheckTokenizer(const Tokenizer& tokens) {
  std::vector<TokenId> ids;
  const int32_t size = tokens.vocab_size(), count = std::min(size, kProbedTokens);
  for (int32_t i = 0; i < count; ++i)
    ids.push_back(static_cast<TokenId>(int64_t{size} * i / count));
  TM_ASSIGN_OR_RETURN(const EchoedTokens echoed, Ask(*peers_.front(), ids));
  return CheckEchoed(echoed, ids, tokens);
}

HttpTeacher::~HttpTeacher() {
  queue_.Stop();
  for (const auto& peer : peers_) peer->Interrupt();
}

void HttpTeacher::Submit(TeacherCall call) {
  queue_.Put(std::move(call));
}

void HttpTeacher::Answer(HttpPeer& peer, const TeacherCall& call) {
  const Time began = std::chrono::steady_clock::now();
  const Result<EchoedTokens> echoed = Ask(peer, call.ids);
  TeacherDone done;
  done.tag = call.tag;
  done.status = echoed.status();
  for (const TokenSpan& span : call.spans) {
    for (size_t i = span.begin; echoed.ok() && i < span.begin + span.tokens; ++i) {
      done.scores.logprobs.push_back(echoed->logprobs[i]);
      done.scores.known.push_back(echoed->known[i]);
    }
  }
  if (!done.status.ok()) {
    LogEvery(std::chrono::minutes(1), "teacher", LogLevel::kWarn, "the teacher failed",
             {{"endpoint", keys_.endpoint}, {"why", done.status.message()}});
  }
  done.took = std::chrono::steady_clock::now() - began;
  events_.Post(std::move(done));
}

Result<EchoedTokens> HttpTeacher::Ask(HttpPeer& peer, const std::vector<TokenId>& ids) const {
  HttpAsk ask;
  ask.target = (url_.path == "/" ? "" : url_.path) + "/completions";
  ask.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
  if (!key_.empty()) ask.headers.emplace_back("Authorization", "Bearer " + key_);
  ask.body = EchoRequest(keys_.endpoint_model, ids);
  TM_ASSIGN_OR_RETURN(const HttpAnswer answer, peer.Ask(ask, keys_.timeout));
  if (answer.status == 200) return ReadEcho(answer.body, ids.size());
  const std::string said = url_.Authority() + " answers " + std::to_string(answer.status) + ": " +
                           Beginning(answer.body, kSaidBytes);
  const bool for_good = answer.status >= 400 && answer.status < 500 && answer.status != 408 &&
                        answer.status != 425 && answer.status != 429;
  return for_good ? Invalid(said) : Unavailable(said);
}

}  // namespace tidemill
