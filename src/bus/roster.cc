#include "bus/roster.h"

#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "core/log.h"
#include "core/message_check.h"

namespace tidemill {

std::string WorkerName(std::string_view role, int64_t pid) {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  return std::string(role) + "-" + host + "-" + std::to_string(pid);
}

std::optional<RosterEntry> ReadBeat(std::string_view bytes, Duration age) {
  RosterEntry entry;
  entry.age = age;
  if (const Status read = ReadMessage(bytes, entry.beat); !read.ok()) {
    LogOnce("heartbeat", LogLevel::kWarn, "a heartbeat is put aside: " + read.message());
    return std::nullopt;
  }
  return entry;
}

void SortRoster(std::vector<RosterEntry>& workers) {
  std::sort(workers.begin(), workers.end(), [](const RosterEntry& a, const RosterEntry& b) {
    return std::tie(a.beat.role(), a.beat.worker()) < std::tie(b.beat.role(), b.beat.worker());
  });
}

Status CheckSameMessages(const std::vector<RosterEntry>& workers, const v1::Heartbeat& newcomer) {
  for (const RosterEntry& entry : workers) {
    const v1::Heartbeat& other = entry.beat;
    if (entry.lost() || other.worker() == newcomer.worker()) continue;
    if (other.messages() == newcomer.messages()) continue;
    return Invalid("this program (" + newcomer.version() + ") uses version " +
                   std::to_string(newcomer.messages()) + " of the messages, but worker " +
                   other.worker() + " (" + other.version() + ") of the same run uses version " +
                   std::to_string(other.messages()) + "; run the same program everywhere");
  }
  return Ok();
}

}  // namespace tidemill
