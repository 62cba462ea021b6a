#include "bus/broker.h"

#include <utility>

#include "bus/rabbit/rabbit_bus.h"
#include "bus/rabbit/rabbit_inspector.h"
#include "bus/rabbit/rabbit_notes.h"
#include "bus/rabbit/rabbit_place.h"
#include "bus/rabbit/rabbit_roster.h"
#include "bus/rabbit/rabbit_url.h"
#include "bus/redis/redis_bus.h"
#include "bus/redis/redis_inspector.h"
#include "bus/redis/redis_notes.h"
#include "bus/redis/redis_place.h"
#include "bus/redis/redis_roster.h"
#include "bus/redis/redis_url.h"
#include "bus/redis/topic_janitor.h"

namespace tidemill {
namespace {

bool IsRabbit(std::string_view url) {
  return url.starts_with("amqp://") || url.starts_with("amqps://");
}

// Where the caller wants the interface.
template <typename Base, typename Made>
Result<std::unique_ptr<Base>> As(Result<Made> made) {
  if (!made.ok()) return made.status();
  return std::unique_ptr<Base>(std::make_unique<Made>(std::move(*made)));
}

template <typename Base, typename Made>
Result<std::unique_ptr<Base>> Up(Result<std::unique_ptr<Made>> made) {
  if (!made.ok()) return made.status();
  return std::unique_ptr<Base>(std::move(*made));
}

}  // namespace

Status CheckBusUrl(std::string_view url) {
  if (IsRabbit(url)) return ParseRabbitUrl(url).status();
  if (url.starts_with("redis://") || url.starts_with("rediss://")) {
    return ParseRedisUrl(url).status();
  }
  return Invalid(
      "the URL of a bus begins with redis:// or rediss:// (Redis), or amqp:// or amqps:// "
      "(RabbitMQ)");
}

Result<std::unique_ptr<BrokerBus>> ConnectBus(const BrokerBusOptions& options) {
  TM_RETURN_IF_ERROR(CheckBusUrl(options.url));
  if (IsRabbit(options.url)) {
    RabbitBusOptions rabbit;
    rabbit.url = options.url;
    rabbit.run = options.run;
    rabbit.client = options.client;
    return Up<BrokerBus>(RabbitBus::Connect(std::move(rabbit)));
  }
  RedisBusOptions redis;
  redis.url = options.url;
  redis.run = options.run;
  redis.client = options.client;
  return Up<BrokerBus>(RedisBus::Connect(std::move(redis)));
}

Result<std::unique_ptr<Roster>> ConnectRoster(const std::string& url, const std::string& run) {
  TM_RETURN_IF_ERROR(CheckBusUrl(url));
  if (IsRabbit(url)) return As<Roster>(RabbitRoster::Connect(url, run));
  return As<Roster>(RedisRoster::Connect(url, run));
}

Result<std::unique_ptr<NoteBoard>> ConnectNotes(const std::string& url, const std::string& run,
                                                Duration timeout) {
  TM_RETURN_IF_ERROR(CheckBusUrl(url));
  if (IsRabbit(url)) return As<NoteBoard>(RabbitNotes::Connect(url, run, timeout));
  return As<NoteBoard>(RedisNotes::Connect(url, run, timeout));
}

Result<std::unique_ptr<RunInspector>> ConnectInspector(const std::string& url, Duration timeout) {
  TM_RETURN_IF_ERROR(CheckBusUrl(url));
  if (IsRabbit(url)) return As<RunInspector>(RabbitInspector::Connect(url, timeout));
  return As<RunInspector>(RedisInspector::Connect(url, timeout));
}

Result<std::unique_ptr<ObjectPlace>> ConnectPlace(const std::string& url, const std::string& run) {
  TM_RETURN_IF_ERROR(CheckBusUrl(url));
  return IsRabbit(url) ? ConnectRabbitPlace(url, run) : ConnectRedisPlace(url, run);
}

Status RemoveRun(const std::string& url, const std::string& run) {
  TM_RETURN_IF_ERROR(CheckBusUrl(url));
  return IsRabbit(url) ? RemoveRabbitRun(url, run) : RemoveRedisRun(url, run);
}

Result<std::shared_ptr<void>> StartJanitor(const std::string& url, const std::string& run,
                                           BrokerBus& bus, const std::set<std::string>& keep) {
  TM_RETURN_IF_ERROR(CheckBusUrl(url));
  if (IsRabbit(url)) return std::shared_ptr<void>();
  TM_ASSIGN_OR_RETURN(RedisClient client, RedisClient::Connect(url));
  return std::shared_ptr<void>(std::make_shared<TopicJanitor>(bus, std::move(client), run, keep));
}

}  // namespace tidemill
