// Looks at a run on a RabbitMQ broker: its queues, its book, and what its members say they hold.
// Looking at what waits in a queue takes it and gives it back, which the broker remembers as a
// delivery.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/rabbit/rabbit_client.h"
#include "bus/run_inspector.h"

namespace tidemill {

class RabbitInspector final : public RunInspector {
 public:
  static Result<RabbitInspector> Connect(std::string_view url,
                                         Duration timeout = std::chrono::seconds(5));

  // kInvalid: RabbitMQ does not tell what queues it has.
  Result<std::vector<std::string>> Runs() override;
  Status CheckRun(std::string_view run) override;
  Result<std::vector<TopicState>> Topics(std::string_view run) override;
  Result<std::vector<RosterEntry>> Workers(std::string_view run) override;
  Result<RosterTotals> Totals(std::string_view run) override;
  Status ForEachMessage(std::string_view run, std::string_view topic,
                        const std::function<void(std::string_view body)>& visit) override;
  Result<std::vector<DeadLetterEntry>> DeadLetters(std::string_view run,
                                                   const DeadQuery& query) override;
  Result<DeadLetterEntry> DeadLetter(std::string_view run, std::string_view id) override;
  Status Retry(std::string_view run, std::string_view id) override;
  Status Drop(std::string_view run, std::string_view id) override;

 private:
  RabbitInspector(std::string url, Duration timeout) : url_(std::move(url)), timeout_(timeout) {}
  // A member of the run, from the first time it is asked about.
  Result<RabbitClient*> Of(std::string_view run);
  // Every message of a queue, which stays as it is but for those of which `visit` says true: they
  // are taken off. None where there is no such queue.
  Status Look(RabbitClient& client, const std::string& queue,
              const std::function<bool(RabbitEvent&)>& visit);
  Status AskHeld(RabbitClient& client, std::string_view topic,
                 const std::function<void(std::string_view body)>& visit);
  Status End(std::string_view run, std::string_view id, bool publish);

  std::string url_;
  Duration timeout_;
  std::string run_;
  std::optional<RabbitClient> client_;
};

}  // namespace tidemill
