// Many streams and requests while weights are swapped.
#include <algorithm>

#include "bench/gateway_bench.h"
#include "core/file_limit.h"

namespace tidemill {
namespace {

constexpr size_t kOtherFiles = 128;

// A stream has a descriptor at both ends, and both are in this process.
Status RoomForStreams(int streams) {
  const size_t needed = 2 * static_cast<size_t>(streams) + kOtherFiles;
  const size_t allowed = RaiseFileLimit(needed);
  if (allowed >= needed) return Ok();
  return Unavailable(std::to_string(streams) + " streams need " + std::to_string(needed) +
                     " open files, but the process may have " + std::to_string(allowed) +
                     " (raise it: ulimit -n " + std::to_string(needed) + ")");
}

class GatewayLoad {
 public:
  explicit GatewayLoad(const GatewayLoadOptions& options)
      : options_(options), served_(options.served) {}

  Result<GatewayLoadReport> Run() {
    report_.options = options_;
    TM_RETURN_IF_ERROR(RoomForStreams(options_.streams * 21 / 20));
    TM_RETURN_IF_ERROR(served_.Open());
    TM_RETURN_IF_ERROR(served_.StartGateway());
    TM_ASSIGN_OR_RETURN(
        const auto questions,
        served_.Ask(options_.requests,
                    {.prompt = options_.prompt, .tokens = options_.tokens, .token_ids = true}));
    const Time begin = served_.clock().Now();
    const uint64_t swaps_before = served_.engine().Stats().swaps;
    // A few more than are counted: one ends before the next begins.
    const StreamAllOptions streams{.at_once = static_cast<size_t>(options_.streams * 21 / 20),
                                   .limit = std::chrono::minutes(10),
                                   .ended = [&](size_t ended) { Swap(ended); }};
    TM_ASSIGN_OR_RETURN(const auto times, served_.Stream(questions, streams));
    report_.seconds = Seconds(served_.clock().Now() - begin);
    report_.swaps = served_.engine().Stats().swaps - swaps_before;
    report_.gaps = GapsOf(times, times);
    Judge(times);
    return std::move(report_);
  }

 private:
  // So often that there are enough, each only when the engine has taken the one before.
  void Swap(size_t ended) {
    report_.open_most = std::max<uint64_t>(report_.open_most, served_.open());
    const double due = 1.1 * options_.swaps * static_cast<double>(ended) / options_.requests;
    const uint64_t published = served_.published() - 1;
    if (static_cast<double>(published) > due) return;
    if (served_.engine().version() == served_.published()) served_.Publish();
  }

  void Judge(const std::vector<StreamTimes>& times) {
    std::vector<double> waits;
    for (const StreamTimes& one : times) {
      if (one.complete && NumberIn(one, "completion_tokens") == options_.tokens) {
        ++report_.complete;
        waits.push_back(Milliseconds(one.events[0].at - one.sent));
      } else {
        ++report_.broken;
        report_.broken_example = one.first + " .. " + one.last;
      }
    }
    report_.first_token_p99_ms = PercentileOf(waits, 0.99);
  }

  const GatewayLoadOptions options_;
  GatewayUnderTest served_;
  GatewayLoadReport report_;
};

}  // namespace

Result<GatewayLoadReport> RunGatewayLoad(const GatewayLoadOptions& options) {
  return GatewayLoad(options).Run();
}

}  // namespace tidemill
