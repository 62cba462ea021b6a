// Shared by the tests of RedisBus: clients of a test's own server, and what is on it.
#pragma once

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bus/redis/redis_bus.h"
#include "bus/redis/redis_scripts.h"
#include "testing/bus_test_kit.h"
#include "testing/redis_test_server.h"

namespace tidemill {

inline constexpr Duration kHour = std::chrono::hours(1);

inline std::vector<Lease> Take(Bus& bus, std::string_view topic, size_t count) {
  std::vector<Lease> taken;
  EXPECT_TRUE(Eventually([&] {
    auto some = bus.Receive(topic, count - taken.size());
    EXPECT_TRUE(some.ok()) << some.status().ToString();
    for (Lease& lease : *some) taken.push_back(std::move(lease));
    return taken.size() >= count;
  })) << "only "
      << taken.size() << " of " << count << " came on " << topic;
  return taken;
}

inline std::unique_ptr<RedisBus> Connect(const RedisTestServer& server,
                                         const std::function<void(RedisBusOptions&)>& change = {}) {
  RedisBusOptions options;
  options.url = server.url();
  options.run = "test";
  options.tick = milliseconds(20);
  options.reconnect_min = milliseconds(5);
  options.reconnect_max = milliseconds(50);
  if (change) change(options);
  auto bus = RedisBus::Connect(options);
  EXPECT_TRUE(bus.ok()) << bus.status().ToString();
  return bus.ok() ? std::move(*bus) : nullptr;
}

inline int64_t StreamLength(RedisTestServer& server, std::string_view topic) {
  return server.Do({"XLEN", RedisKeys("test").Stream(topic)})->integer;
}

inline size_t CountKeys(RedisTestServer& server, std::string_view pattern) {
  return server.Do({"KEYS", pattern})->elements;
}

}  // namespace tidemill
