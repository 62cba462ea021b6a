// Every view of the page on a run of a hundred thousand episodes.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>

#include "dashboard/run_api.h"
#include "testing/sample/sample_run.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

constexpr double kPassesMax = 3;
constexpr int kRounds = 5;

// Processor time of this thread, so that what else this machine does is not measured.
double CpuMs(const std::function<void()>& work) {
  const auto now = [] {
    struct timespec time {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  const double begin = now();
  work();
  return now() - begin;
}

double Median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

// What a view is measured by: reading every column of every episode once, with SQLite alone.
class Pass {
 public:
  explicit Pass(const std::string& path) {
    EXPECT_EQ(sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_prepare_v2(db_, "SELECT * FROM trajectories", -1, &all_, nullptr), SQLITE_OK);
  }
  ~Pass() {
    sqlite3_finalize(all_);
    sqlite3_close(db_);
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  // The bytes read.
  size_t Read() {
    size_t bytes = 0;
    while (sqlite3_step(all_) == SQLITE_ROW) {
      for (int i = 0; i < sqlite3_column_count(all_); ++i) {
        bytes += sqlite3_column_text(all_, i) == nullptr ? 0 : 1;
        bytes += static_cast<size_t>(sqlite3_column_bytes(all_, i));
      }
    }
    sqlite3_reset(all_);
    return bytes;
  }

 private:
  sqlite3* db_ = nullptr;
  sqlite3_stmt* all_ = nullptr;
};

TEST(AHundredThousandEpisodes, NoViewCostsMoreThanThreePassesOverThem) {
  TemporaryDirectory folder;
  SampleOptions options;
  options.steps = 1560;
  options.groups_per_step = 8;
  options.group_size = 8;
  options.tasks = 500;
  options.slots = 64;
  options.steps_a_transaction = 20;
  SampleRun run(folder.path(), "large", options);
  run.WriteAll();
  ASSERT_GE(run.episodes(), 100'000u);
  RunApi api({.folder = folder.path()});
  Pass pass(run.directory().db_path());
  const std::string base = "/api/runs/large";
  for (const std::string view : {"/api/runs",
                                 "",
                                 "/series",
                                 "/pass_rate",
                                 "/pass_rate?purpose=eval",
                                 "/pass_rate?task=cfunc%2Fgcd-1",
                                 "/episodes",
                                 "/episodes?offset=50000",
                                 "/episodes?sort=worst",
                                 "/episodes?sort=slowest",
                                 "/episodes?sort=turns&solved=false",
                                 "/episodes?task=cfunc%2Fgcd-1&sort=best",
                                 "/episodes?reward_min=0.3&reward_max=0.6",
                                 "/episodes?version=700",
                                 "/episodes?lag_min=2",
                                 "/episodes?fate=stale",
                                 "/episodes?end=max_tokens",
                                 "/episodes/6000/3",
                                 "/groups/6000",
                                 "/tasks",
                                 "/tasks?sort=change",
                                 "/tasks?search=gcd&state=improving&limit=100",
                                 "/tasks?purpose=eval",
                                 "/tools",
                                 "/faults",
                                 "/timeline",
                                 "/timeline?limit=1",
                                 "/timeline?from=1760000600000&to=1760000900000&limit=1000",
                                 "/config"}) {
    // Both are measured in turn: a machine that slows down slows both.
    std::vector<double> views, passes;
    size_t bytes = 0;
    for (int i = 0; i < kRounds; ++i) {
      HttpResponse response;
      views.push_back(CpuMs([&] { response = api.Get(view == "/api/runs" ? view : base + view); }));
      ASSERT_EQ(response.status, 200) << view << ": " << response.body.substr(0, 200);
      bytes = std::max(bytes, response.body.size());
      passes.push_back(CpuMs([&] { ASSERT_GT(pass.Read(), run.episodes()); }));
    }
    const double ratio = Median(views) / Median(passes);
    std::printf("  %-45s %6.1f ms of CPU, %5.2f passes of %5.1f ms  %7zu bytes\n", view.c_str(),
                Median(views), ratio, Median(passes), bytes);
    EXPECT_LT(ratio, kPassesMax) << view;
    EXPECT_LT(bytes, size_t{2} << 20) << view;  // what the page has to hold
  }
}

}  // namespace
}  // namespace tidemill
