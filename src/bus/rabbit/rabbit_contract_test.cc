// RabbitBus held to the contract of every bus, on a broker that the tests of this program share.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <stdexcept>

#include "bus/rabbit/rabbit_bus.h"
#include "bus/rabbit/rabbit_names.h"
#include "testing/bus_contract.h"
#include "testing/rabbit_test_server.h"

namespace tidemill {
namespace {

// Real time, and what a test has added to it.
class OffsetClock final : public Clock {
 public:
  Time Now() const override { return real_.Now() + Duration(offset_.load()); }
  int64_t WallMs() const override { return real_.WallMs(); }
  void Advance(Duration d) { offset_ += d.count(); }

 private:
  RealClock real_;
  std::atomic<int64_t> offset_ = 0;
};

class RabbitHarness final : public BusHarness {
 public:
  explicit RabbitHarness(bool quorum) : run_(NewRun()), names_(run_) {
    const std::string url = SharedRabbit()->url() + (quorum ? "?queues=quorum" : "");
    for (auto& client : clients_) {
      RabbitBusOptions options;
      options.url = url;
      options.run = run_;
      options.tick = milliseconds(20);
      options.clock = &clock_;
      auto bus = RabbitBus::Connect(options);
      if (!bus.ok()) throw std::runtime_error(bus.status().ToString());
      client = std::move(*bus);
    }
    auto connection =
        RabbitConnection::Connect(ParseRabbitUrl(url).value(), std::chrono::seconds(20), 0);
    if (!connection.ok()) throw std::runtime_error(connection.status().ToString());
    connection_ = std::move(*connection);
    Do(connection_->OpenChannel(kChannel));
  }

  Bus& client(int i) override { return *clients_[i]; }
  void Advance(Duration d) override {
    for (auto& client : clients_) {
      EXPECT_TRUE(client->Flush(std::chrono::seconds(20)).ok());
    }
    clock_.Advance(d);
    for (const Duration level : ParkingLevels()) {
      if (level >= std::chrono::seconds(50) && level < std::chrono::minutes(10)) Age(level, d);
    }
  }

 private:
  static constexpr uint16_t kChannel = 1;
  static constexpr const char* kLeft = "test: ms left";

  // Each its own, so that a test that is repeated finds nothing there.
  static std::string NewRun() {
    static int runs = 0;
    return "contract-" + std::to_string(getpid()) + "-" + std::to_string(++runs);
  }

  Result<RabbitEvent> Ask(const Status& sent) {
    EXPECT_TRUE(sent.ok()) << sent.ToString();
    return connection_->Answer(kChannel, std::chrono::seconds(20));
  }
  void Do(const Status& sent) {
    const auto answer = Ask(sent);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
  }

  // Makes what is parked older: what the passing of time does on the broker.
  void Age(Duration level, Duration by) {
    const std::string queue = names_.Parking(level);
    if (!Ask(connection_->Declare(kChannel, {.name = queue, .passive = true})).ok()) {
      Do(connection_->OpenChannel(kChannel));
      return;
    }
    std::vector<RabbitMessage> parked;
    while (true) {
      auto got = Ask(connection_->Get(kChannel, queue));
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      if (got->kind != RabbitEvent::Kind::kGot) break;
      ASSERT_TRUE(connection_->Ack(kChannel, got->tag).ok());
      parked.push_back(std::move(got->message));
    }
    for (RabbitMessage& message : parked) {
      const std::string_view said = message.Header(kLeft);
      const Duration left =
          (said.empty() ? level : Duration(milliseconds(std::stoll(std::string(said))))) - by;
      message.exchange = left > Duration::zero() ? queue : "";
      std::erase_if(message.headers, [](const auto& header) { return header.first == kLeft; });
      message.headers.emplace_back(
          kLeft, std::to_string(std::chrono::duration_cast<milliseconds>(left).count()));
      ASSERT_TRUE(connection_->Publish(kChannel, message).ok());
    }
  }

  const std::string run_;
  const RabbitNames names_;
  OffsetClock clock_;
  std::unique_ptr<RabbitBus> clients_[2];
  std::unique_ptr<RabbitConnection> connection_;
};

std::unique_ptr<BusHarness> Classic() {
  return SharedRabbit() == nullptr ? nullptr : std::make_unique<RabbitHarness>(false);
}

std::unique_ptr<BusHarness> Quorum() {
  return SharedRabbit() == nullptr ? nullptr : std::make_unique<RabbitHarness>(true);
}

INSTANTIATE_TEST_SUITE_P(RabbitClassic, BusContract, ::testing::Values(BusHarnessFactory(Classic)));
INSTANTIATE_TEST_SUITE_P(RabbitQuorum, BusContract, ::testing::Values(BusHarnessFactory(Quorum)));

}  // namespace
}  // namespace tidemill
