#include "dashboard/fleet_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "core/topics.h"

namespace tidemill {
namespace {

using Json = ApiJson;

constexpr Duration kTimeout = std::chrono::seconds(2);
constexpr Duration kFresh = std::chrono::seconds(1);
// A run that is not there is looked for less often: that scans the server's keys.
constexpr Duration kFreshAbsent = std::chrono::seconds(10);
constexpr uint64_t kWorkersMax = 500;
constexpr size_t kTopicsMax = 100;
constexpr size_t kNumbersMax = 40;

// As work passes them.
int RoleOrder(const std::string& role) {
  static const std::vector<std::string> kRoles = {"learner", "rollout", "tools", "reward", "scale"};
  return static_cast<int>(std::find(kRoles.begin(), kRoles.end(), role) - kRoles.begin());
}

// A topic only one worker reads.
bool IsOwn(const std::string& topic) {
  return topic.starts_with("inbox.") || topic.starts_with(ToolCancelTopic("")) ||
         topic.starts_with(ToolBoxTopic(""));
}

struct RoleSum {
  uint64_t here = 0, leaving = 0, lost = 0;
  double busy = 0, rate = 0;  // of those that are not lost
  std::string rate_of;
};

Json RolesJson(const RunStatus& status) {
  std::map<std::pair<int, std::string>, RoleSum> roles;
  for (const RosterEntry& entry : status.workers) {
    const v1::Heartbeat& beat = entry.beat;
    RoleSum& role = roles[{RoleOrder(beat.role()), beat.role()}];
    ++(entry.lost() ? role.lost : beat.leaving() ? role.leaving : role.here);
    if (entry.lost()) continue;
    role.busy += beat.busy();
    role.rate += beat.rate();
    role.rate_of = beat.rate_of();
  }
  Json list = Json::array();
  for (const auto& [key, role] : roles) {
    const uint64_t working = role.here + role.leaving;
    list.push_back({{"role", key.second},
                    {"here", role.here},
                    {"leaving", role.leaving},
                    {"lost", role.lost},
                    {"busy", working > 0 ? Json(role.busy / static_cast<double>(working)) : Json()},
                    {"rate", role.rate_of.empty() ? Json() : Json(role.rate)},
                    {"rate_of", role.rate_of}});
  }
  return list;
}

Json TopicsJson(const RunStatus& status) {
  Json list = Json::array();
  TopicState own;
  own.name = "(inboxes)";
  for (const TopicState& topic : status.topics) {
    if (IsOwn(topic.name)) {
      own.ready += topic.ready;
      own.leased += topic.leased;
      own.delayed += topic.delayed;
      own.owed += topic.owed;
      own.died += topic.died;
      own.options.capacity = std::max(own.options.capacity, topic.options.capacity);
      own.oldest_ready = std::max(own.oldest_ready, topic.oldest_ready);
      own.oldest_leased = std::max(own.oldest_leased, topic.oldest_leased);
    } else if (list.size() < kTopicsMax) {
      list.push_back(TopicJson(topic));
    }
  }
  list.push_back(TopicJson(own));
  return list;
}

struct WorkerQuery {
  std::string role, state, search, sort;
  uint64_t offset = 0, limit = 100;
};

Result<WorkerQuery> QueryFrom(const HttpRequest& request) {
  WorkerQuery query;
  const auto text = [&](const char* name) {
    const std::string* value = request.Find(name);
    return value == nullptr ? std::string() : *value;
  };
  query.role = text("role");
  query.search = text("search");
  query.state = text("state");
  query.sort = text("sort");
  if (!query.state.empty() && query.state != "here" && query.state != "leaving" &&
      query.state != "lost") {
    return Invalid("parameter \"state\" must be here, leaving or lost");
  }
  if (!query.sort.empty() && query.sort != "role" && query.sort != "silent" &&
      query.sort != "idle" && query.sort != "lag") {
    return Invalid("parameter \"sort\" must be role, silent, idle or lag");
  }
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> offset, UintParameter(request, "offset"));
  TM_ASSIGN_OR_RETURN(const std::optional<uint64_t> limit, UintParameter(request, "limit"));
  if (limit && (*limit < 1 || *limit > kWorkersMax)) {
    return Invalid("parameter \"limit\" must be 1 to " + std::to_string(kWorkersMax));
  }
  query.offset = offset.value_or(0);
  query.limit = limit.value_or(query.limit);
  return query;
}

std::vector<const RosterEntry*> Chosen(const RunStatus& status, const WorkerQuery& query) {
  std::vector<const RosterEntry*> workers;
  for (const RosterEntry& entry : status.workers) {
    if (!query.role.empty() && entry.beat.role() != query.role) continue;
    if (!query.state.empty() && query.state != WorkerState(entry)) continue;
    if (entry.beat.worker().find(query.search) == std::string::npos &&
        entry.beat.host().find(query.search) == std::string::npos) {
      continue;
    }
    workers.push_back(&entry);
  }
  std::stable_sort(workers.begin(), workers.end(), [](const RosterEntry* a, const RosterEntry* b) {
    return RoleOrder(a->beat.role()) < RoleOrder(b->beat.role());
  });  // by name already
  const auto order = [&](auto before) { std::stable_sort(workers.begin(), workers.end(), before); };
  using Entry = const RosterEntry*;
  if (query.sort == "silent") {
    order([](Entry a, Entry b) { return a->age > b->age; });
  } else if (query.sort == "idle") {
    order([](Entry a, Entry b) {
      return std::make_tuple(a->lost(), a->beat.busy()) <
             std::make_tuple(b->lost(), b->beat.busy());
    });
  } else if (query.sort == "lag") {
    order([&](Entry a, Entry b) { return status.Lag(a->beat) > status.Lag(b->beat); });
  }
  return workers;
}

}  // namespace

FleetLook FleetView::Look(const std::string& run) {
  if (url_.empty()) return {};
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(run);
    if (found != entries_.end()) {
      const FleetLook& look = found->second.look;
      const Duration fresh = look.state == "absent" ? kFreshAbsent : kFresh;
      if (clock_.Now() - found->second.read_at < fresh) return look;
    }
  }
  if (!reading_.TryLock()) return Known(run);
  MutexLock reading(reading_, std::adopt_lock);
  Result<RunStatus> status = Read(run);
  FleetLook look = Known(run);
  look.error.clear();
  if (status.ok()) {
    look.state = "here";
    look.read_ms = clock_.WallMs();
    look.status = std::make_shared<const RunStatus>(std::move(*status));
  } else if (status.status().code() == Code::kNotFound) {
    look = FleetLook();
    look.state = "absent";
  } else {
    look.state = "silent";
    look.error = status.status().message();
  }
  MutexLock lock(mutex_);
  if (entries_.size() >= kRunsMax && !entries_.contains(run)) {
    entries_.erase(std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.read_at < b.second.read_at; }));
  }
  entries_[run] = {look, clock_.Now()};
  return look;
}

FleetLook FleetView::Known(const std::string& run) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(run);
  if (found != entries_.end()) return found->second.look;
  FleetLook look;
  look.state = "asking";
  return look;
}

Result<RunStatus> FleetView::Read(const std::string& run) {
  if (reader_ == nullptr) {
    TM_ASSIGN_OR_RETURN(RunStatusReader connected, RunStatusReader::Connect(url_, kTimeout));
    reader_ = std::make_unique<RunStatusReader>(std::move(connected));
  }
  return reader_->Read(run);
}

Result<Json> FleetJson(const FleetLook& look, const HttpRequest& request) {
  TM_ASSIGN_OR_RETURN(const WorkerQuery query, QueryFrom(request));
  Json json = {{"state", look.state},
               {"error", look.error.empty() ? Json() : Json(look.error)},
               {"read_ms", look.read_ms}};
  if (look.status == nullptr) return json;
  const RunStatus& status = *look.status;
  json.update(StatusFigures(status));
  json["roles"] = RolesJson(status);
  json["topics"] = TopicsJson(status);
  const std::vector<const RosterEntry*> workers = Chosen(status, query);
  json["total"] = workers.size();
  json["offset"] = query.offset;
  Json& list = json["workers"] = Json::array();
  for (uint64_t i = query.offset; i < workers.size() && list.size() < query.limit; ++i) {
    Json worker = WorkerJson(status, *workers[i]);
    // Somebody else's program may say more than ours.
    while (worker["numbers"].size() > kNumbersMax) {
      worker["numbers"].erase(std::prev(worker["numbers"].end()));
    }
    list.push_back(std::move(worker));
  }
  return json;
}

}  // namespace tidemill
