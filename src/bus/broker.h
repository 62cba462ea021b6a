// The one place that knows which broker a URL is of: redis:// and rediss://, or amqp:// and
// amqps:// for RabbitMQ. Everything of a run that is on its broker is reached from here.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "bus/broker_bus.h"
#include "bus/note_board.h"
#include "bus/roster.h"
#include "bus/run_inspector.h"
#include "core/object_place.h"
#include "core/status.h"

namespace tidemill {

// For the help of --bus.
inline constexpr const char* kBusUrlForm =
    "redis://HOST:PORT/DB or amqp://USER:PASSWORD@HOST:PORT/VHOST; default: TIDEMILL_BUS";
inline constexpr Duration kBrokerPatience = std::chrono::seconds(5);

// kInvalid: no URL of a broker. Does not connect.
Status CheckBusUrl(std::string_view url);

// Each connects. kInvalid: the URL or the run's name is wrong, or the broker refused us;
// kUnavailable: it did not answer.
struct BrokerBusOptions {
  std::string url;
  std::string run;
  std::string client;  // a name for people
};
Result<std::unique_ptr<BrokerBus>> ConnectBus(const BrokerBusOptions& options);
Result<std::unique_ptr<Roster>> ConnectRoster(const std::string& url, const std::string& run);
Result<std::unique_ptr<NoteBoard>> ConnectNotes(const std::string& url, const std::string& run,
                                                Duration timeout = kBrokerPatience);
Result<std::unique_ptr<RunInspector>> ConnectInspector(const std::string& url,
                                                       Duration timeout = kBrokerPatience);
Result<std::unique_ptr<ObjectPlace>> ConnectPlace(const std::string& url, const std::string& run);

// Removes what a run left on the broker.
Status RemoveRun(const std::string& url, const std::string& run);

// Keeps the run's part of the broker in order for as long as what it gives lives; null: the broker
// needs nobody for that. `keep` are owners of topics that are there without being in the roster.
Result<std::shared_ptr<void>> StartJanitor(const std::string& url, const std::string& run,
                                           BrokerBus& bus, const std::set<std::string>& keep);

}  // namespace tidemill
