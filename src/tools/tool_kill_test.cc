// An executor that dies by SIGKILL in the middle of its work: nothing it held is lost.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "bus/redis/redis_bus.h"
#include "bus/standard_topics.h"
#include "core/loop_runner.h"
#include "core/topics.h"
#include "testing/redis_test_server.h"
#include "testing/tool_fixture.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

constexpr int kRequests = 100;

std::unique_ptr<RedisBus> Connect(const std::string& url) {
  RedisBusOptions options;
  options.url = url;
  auto bus = RedisBus::Connect(options);
  TM_CHECK(bus.ok(), bus.status().message());
  TopicPlan plan;
  plan.lease = std::chrono::seconds(2);
  const Status opened = OpenStandardTopics(**bus, plan);
  TM_CHECK(opened.ok(), opened.message());
  return std::move(*bus);
}

// What a tool worker does, until it is killed.
[[noreturn]] void Work(const std::string& url) {
  RealClock clock;
  std::unique_ptr<RedisBus> bus = Connect(url);
  ToolExecutorOptions options;
  options.slots = 2;
  options.grade_slots = 2;
  auto executor = ToolExecutor::Create(options, nullptr, clock);
  TM_CHECK(executor.ok(), executor.status().message());
  ToolLoopOptions loop_options;
  loop_options.lease_period = milliseconds(600);
  loop_options.cache = 0;
  ToolLoop loop(*bus, **executor, loop_options);
  LoopRunner runner;
  runner.Add(loop);
  const Status started = runner.Start();
  TM_CHECK(started.ok(), started.message());
  for (;;) pause();
}

// A process that waits for one byte before it becomes a worker. Made while this process has one
// thread.
class Worker {
 public:
  explicit Worker(const std::string& url) {
    int ends[2];
    TM_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[1]);
      char go;
      if (read(ends[0], &go, 1) != 1) _exit(0);
      Work(url);
    }
    close(ends[0]);
    go_ = Fd(ends[1]);
  }
  ~Worker() { Kill(); }
  void Go() { TM_CHECK(write(go_.get(), "g", 1) == 1); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    dead_ = std::exchange(pid_, -1);
  }
  pid_t dead() const { return dead_; }

 private:
  pid_t pid_ = -1;
  pid_t dead_ = -1;
  Fd go_;
};

// Processes that are still in a cgroup of that executor.
size_t ProcessesOf(pid_t executor) {
  std::string why;
  std::ostringstream mounts, own;
  mounts << std::ifstream("/proc/self/mountinfo").rdbuf();
  own << std::ifstream("/proc/self/cgroup").rdbuf();
  const auto root = CgroupRoot::Find(mounts.str(), own.str(), &why);
  if (root == nullptr) return 0;
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root->parents()[0])) {
    if (!entry.path().filename().string().starts_with(fmt::format("tidemill-{}-", executor)))
      continue;
    std::ifstream procs(entry.path() / "cgroup.procs");
    for (std::string line; std::getline(procs, line);) ++count;
  }
  return count;
}

TEST(ToolWorker, KilledInTheMiddleOfAHundredRequestsLosesNoneOfThem) {
  RedisTestServer server;
  Worker first(server.url()), second(server.url());
  std::unique_ptr<RedisBus> bus = Connect(server.url());
  TopicOptions inbox;
  inbox.capacity = 2 * kRequests;
  ASSERT_TRUE(bus->Open("inbox", inbox).ok());
  Bell waker;
  bus->Subscribe("inbox", waker);
  for (int i = 0; i < kRequests; ++i) {
    v1::ToolRequest request = GradeRequest(
        fmt::format("int f(int x) {{ return x * x + 1; }} /* {} */\n", i), LineGrading());
    request.set_request_id(std::to_string(i));
    request.set_reply_to("inbox");
    ASSERT_TRUE(bus->PublishRequest(kToolsGradeTopic, "inbox", request.SerializeAsString()).ok());
  }
  std::map<std::string, int> answers;
  int wrong = 0;
  const auto take = [&](size_t until) {
    const Time give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (answers.size() < until && std::chrono::steady_clock::now() < give_up) {
      auto leases = bus->Receive("inbox", 10);
      ASSERT_TRUE(leases.ok());
      for (const Lease& lease : *leases) {
        v1::ToolResult result;
        ASSERT_TRUE(result.ParseFromString(lease.body));
        ++answers[result.request_id()];
        if (result.tests_passed() != 8) ++wrong;
        (void)bus->Ack(lease);
      }
      if (leases->empty()) (void)waker.Wait(milliseconds(100));
    }
  };
  first.Go();
  take(25);
  ASSERT_GE(answers.size(), 25u);
  first.Kill();
  ASSERT_LT(answers.size(), static_cast<size_t>(kRequests))
      << "it was killed too late to show anything";
  second.Go();
  take(kRequests);
  EXPECT_EQ(answers.size(), static_cast<size_t>(kRequests));
  EXPECT_EQ(wrong, 0);
  // At least once is what a bus can promise; what was answered but not acknowledged when the worker
  // died is what may come twice, no more than it held.
  int repeated = 0;
  for (const auto& [id, count] : answers) repeated += count - 1;
  EXPECT_LE(repeated, 4);
  EXPECT_EQ(ProcessesOf(first.dead()), 0u) << "the dead worker's boxes live on";
  bus->Unsubscribe(waker);
}

}  // namespace
}  // namespace tidemill
