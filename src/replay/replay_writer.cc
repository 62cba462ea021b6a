#include "replay/replay_writer.h"

#include <stdexcept>
#include <utility>

#include "core/topics.h"

namespace tidemill {

ReplayWriter::ReplayWriter(Bus& bus, StorePort& store, Outbox& outbox, const ReplayOptions& options,
                           ReplayCounters& counters)
    : bus_(bus),
      store_(store),
      outbox_(outbox),
      counters_(counters),
      leases_(bus, options.lease_period) {}

uint64_t ReplayWriter::Submit(StoreOp op, Content content) {
  const uint64_t tag = next_tag_++;
  waiting_.emplace(tag, std::move(content));
  store_.Submit(std::move(op), tag);
  return tag;
}

void ReplayWriter::Put(v1::Trajectory trajectory, v1::Trajectory keep, Lease lease, Time now) {
  const uint64_t tag = Submit(PutTrajectory{std::move(trajectory)}, std::move(keep));
  leases_.Hold(tag, std::move(lease), now);
}

void ReplayWriter::Put(const v1::Trajectory& trajectory) {
  Submit(PutTrajectory{trajectory}, trajectory);
}

void ReplayWriter::Put(const v1::Verdict& verdict, Lease lease, Time now) {
  leases_.Hold(Submit(PutVerdict{verdict}, verdict), std::move(lease), now);
}

void ReplayWriter::Record(const v1::TrajectoryId& id, Fate fate, const std::string& reason) {
  Submit(PutFate{id, fate, reason}, {});
}

void ReplayWriter::Report(const v1::GroupReport& report) {
  Submit(PutGroupReport{report}, {});
  v1::DispatchEvent event;
  *event.mutable_group() = report;
  outbox_.Publish(kDispatchTopic, event.SerializeAsString());
}

std::vector<ReplayWriter::Written> ReplayWriter::TakeWritten() {
  std::vector<Written> all;
  for (StoreDone& done : store_.events().TakeAll()) {
    auto node = waiting_.extract(done.tag);
    TM_CHECK(!node.empty(), "the store answered for something that was not submitted");
    Written written{.tag = done.tag, .content = std::move(node.mapped())};
    const Code code = done.status.code();
    written.exists = code == Code::kExists;
    written.refused =
        (code == Code::kInvalid || code == Code::kNotFound) && leases_.Holds(done.tag);
    if (written.refused) {
      // Somebody else's mistake must not end the run: it is kept as a dead letter.
      (void)bus_.Reject(leases_.Take(done.tag), done.status.message());
      ++counters_.refused;
    } else if (!done.status.ok() && !written.exists) {
      throw std::runtime_error("the run's database: " + done.status.ToString());
    }
    all.push_back(std::move(written));
  }
  return all;
}

void ReplayWriter::Done(const Written& written) {
  if (leases_.Holds(written.tag)) (void)bus_.Ack(leases_.Take(written.tag));
}

}  // namespace tidemill
