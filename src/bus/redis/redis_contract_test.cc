// RedisBus held to the contract of every bus, on a server of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "bus/redis/redis_bus.h"
#include "testing/bus_contract.h"
#include "testing/redis_test_server.h"

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

// Makes every lease and delay of a run older: what the passing of time does.
constexpr std::string_view kAge = R"lua(
local prefix, ms = ARGV[1], tonumber(ARGV[2])
for _, name in ipairs(redis.call('HKEYS', prefix .. 'topics')) do
  local stream, delayed = prefix .. 't:' .. name .. ':stream', prefix .. 't:' .. name .. ':delayed'
  for _, p in ipairs(redis.call('XPENDING', stream, 'g', '-', '+', 100000)) do
    redis.call('XCLAIM', stream, 'g', p[2], 0, p[1], 'IDLE', p[3] + ms, 'RETRYCOUNT', p[4], 'JUSTID')
  end
  for _, member in ipairs(redis.call('ZRANGE', delayed, 0, -1)) do
    redis.call('ZINCRBY', delayed, -ms, member)
  end
end
return 1
)lua";

class RedisHarness final : public BusHarness {
 public:
  RedisHarness() {
    for (auto& client : clients_) {
      RedisBusOptions options;
      options.url = server_.url();
      options.run = "contract";
      options.tick = milliseconds(20);
      options.clock = &clock_;
      auto bus = RedisBus::Connect(options);
      if (!bus.ok()) throw std::runtime_error(bus.status().ToString());
      client = std::move(*bus);
    }
  }
  Bus& client(int i) override { return *clients_[i]; }
  void Advance(Duration d) override {
    for (auto& client : clients_) {
      EXPECT_TRUE(client->Flush(std::chrono::seconds(20)).ok());
    }
    clock_.Advance(d);
    const auto ms = std::chrono::duration_cast<milliseconds>(d).count();
    server_.Do({"EVAL", kAge, "0", "{contract}:", std::to_string(ms)});
  }

 private:
  RedisTestServer server_;
  OffsetClock clock_;
  std::unique_ptr<RedisBus> clients_[2];
};

INSTANTIATE_TEST_SUITE_P(Redis, BusContract, ::testing::Values(BusHarnessFactory([] {
                           return std::make_unique<RedisHarness>();
                         })));

}  // namespace
}  // namespace tidemill
