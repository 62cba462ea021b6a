#include "bench/bare_redis.h"

#include <hiredis/hiredis.h>

#include <chrono>
#include <memory>
#include <vector>

#include "bus/redis/redis_library.h"
#include "bus/redis/redis_scripts.h"
#include "bus/redis/redis_url.h"

namespace tidemill {
namespace {

constexpr size_t kBatch = 128;

struct ContextFree {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct BareReplyFree {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using BareReply = std::unique_ptr<redisReply, BareReplyFree>;

class BarePipeline {
 public:
  BarePipeline(std::string_view run, size_t payload_bytes)
      : keys_(run),
        stream_(keys_.Stream("bench")),
        client_key_(keys_.Client("bare")),
        payload_(payload_bytes, 'x') {}

  Status Connect(const RedisAddress& address) {
    context_.reset(redisConnect(address.host.c_str(), address.port));
    if (context_ == nullptr || context_->err != 0) return Unavailable("bare redis: no connection");
    if (address.authenticates()) {
      std::vector<std::string_view> auth = {"AUTH"};
      if (!address.user.empty()) auth.push_back(address.user);
      auth.push_back(address.password);
      Append(auth);
      TM_ASSIGN_OR_RETURN(BareReply ignored, Read());
    }
    Append({"SELECT", std::to_string(address.db)});
    TM_ASSIGN_OR_RETURN(BareReply selected, Read());
    Append({"FUNCTION", "LOAD", RedisLibraryText()});
    TM_ASSIGN_OR_RETURN(BareReply loaded, Read());  // or it is there already
    return Ok();
  }

  // Publishes `count`, reads a batch, and acknowledges `entries`.
  void SendRound(const std::vector<std::string>& entries, size_t count = kBatch) {
    std::vector<std::string_view> args;
    const std::string publish_seq = std::to_string(++seq_), ack_seq = std::to_string(++seq_);
    BeginBatch(publish_seq, args);
    for (size_t i = 0; i < count; ++i) {
      args.insert(args.end(), {"p", "bench", payload_, "", ""});
    }
    Append(args);
    Append({"XREADGROUP", "GROUP", kRedisGroup, "bare", "COUNT", std::to_string(kBatch), "STREAMS",
            stream_, ">"});
    BeginBatch(ack_seq, args);
    for (const std::string& entry : entries) args.insert(args.end(), {"a", "bench", entry, ""});
    Append(args);
  }

  // The entries a round brought.
  Result<std::vector<std::string>> ReadRound() {
    TM_ASSIGN_OR_RETURN(BareReply published, Read());
    TM_ASSIGN_OR_RETURN(BareReply read, Read());
    TM_ASSIGN_OR_RETURN(BareReply acknowledged, Read());
    std::vector<std::string> entries;
    if (read->type != REDIS_REPLY_ARRAY || read->elements != 1) return entries;
    const redisReply& list = *read->element[0]->element[1];
    for (size_t i = 0; i < list.elements; ++i) {
      const redisReply& id = *list.element[i]->element[0];
      entries.emplace_back(id.str, id.len);
      // As any reader would, take the body out of the reply.
      const redisReply& body = *list.element[i]->element[1]->element[1];
      bodies_.assign(body.str, body.len);
    }
    return entries;
  }

 private:
  void BeginBatch(const std::string& seq, std::vector<std::string_view>& args) {
    args = {"FCALL",      RedisFunctionName(RedisFunction::kBatch),
            "1",          client_key_,
            keys_.prefix, "bare",
            "*",          seq,
            "86400"};
  }
  void Append(const std::vector<std::string_view>& args) {
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    for (const std::string_view arg : args) {
      texts.push_back(arg.data());
      sizes.push_back(arg.size());
    }
    redisAppendCommandArgv(context_.get(), static_cast<int>(args.size()), texts.data(),
                           sizes.data());
  }
  Result<BareReply> Read() {
    void* raw = nullptr;
    if (redisGetReply(context_.get(), &raw) != REDIS_OK) return Unavailable(context_->errstr);
    BareReply reply(static_cast<redisReply*>(raw));
    if (reply->type == REDIS_REPLY_ERROR) return Unavailable(std::string(reply->str, reply->len));
    return reply;
  }

  const RedisKeys keys_;
  const std::string stream_;
  const std::string client_key_;
  const std::string payload_;
  std::string bodies_;
  uint64_t seq_ = 0;
  std::unique_ptr<redisContext, ContextFree> context_;
};

}  // namespace

Result<double> MeasureBareRedis(const std::string& url, std::string_view run, size_t payload_bytes,
                                Duration time) {
  TM_ASSIGN_OR_RETURN(RedisAddress address, ParseRedisUrl(url));
  BarePipeline pipeline(run, payload_bytes);
  TM_RETURN_IF_ERROR(pipeline.Connect(address));
  RealClock clock;
  const Time start = clock.Now();
  size_t done = 0;
  pipeline.SendRound({});
  std::vector<std::string> before;
  while (clock.Now() - start < time) {
    pipeline.SendRound(before);
    TM_ASSIGN_OR_RETURN(before, pipeline.ReadRound());
    done += before.size();
  }
  TM_ASSIGN_OR_RETURN(auto last, pipeline.ReadRound());
  before.insert(before.end(), last.begin(), last.end());
  const double rate = static_cast<double>(done) / Seconds(clock.Now() - start);
  // Leaves the topic empty.
  while (!before.empty()) {
    pipeline.SendRound(before, 0);
    TM_ASSIGN_OR_RETURN(before, pipeline.ReadRound());
  }
  return rate;
}

}  // namespace tidemill
