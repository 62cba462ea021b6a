#include "dashboard/run_view.h"

#include <sys/stat.h>

#include <toml++/toml.h>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tidemill {
namespace {

constexpr size_t kKeptTrendsMax = 4;
constexpr int64_t kTrendsFreshMs = 2000;

uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Flatten(const toml::table& table, const std::string& prefix,
             std::map<std::string, std::string>& flat) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      Flatten(*inner, name + ".", flat);
      continue;
    }
    if (const auto text = node.value_exact<std::string>()) {
      flat[name] =
          nlohmann::json(*text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      continue;
    }
    std::ostringstream out;
    node.visit([&](const auto& value) { out << toml::json_formatter(value); });
    flat[name] = out.str();
  }
}

}  // namespace

Result<std::map<std::string, std::string>> FlattenToml(const std::string& toml,
                                                       const std::string& file_name) {
  try {
    std::map<std::string, std::string> flat;
    Flatten(toml::parse(toml), "", flat);
    return flat;
  } catch (const toml::parse_error& error) {
    return Invalid(file_name + ":" + std::to_string(error.source().begin.line) + ": " +
                   std::string(error.description()));
  }
}

RunView::RunView(RunDirectory directory)
    : directory_(std::move(directory)), metrics_(directory_.metrics_path()) {}

Result<std::shared_ptr<RunView>> RunView::Open(const std::string& folder, const std::string& name) {
  TM_RETURN_IF_ERROR(CheckRunName(name));
  TM_ASSIGN_OR_RETURN(RunDirectory directory, RunDirectory::OpenToRead(folder, name));
  std::shared_ptr<RunView> view(new RunView(std::move(directory)));
  view->inode_ = InodeOf(view->directory_.db_path());
  return view;
}

bool RunView::Current() const {
  return inode_ != 0 && InodeOf(directory_.db_path()) == inode_;
}

Result<RunReader*> RunView::reader() {
  MutexLock lock(reader_mutex_);
  if (!reader_) {
    TM_ASSIGN_OR_RETURN(reader_, RunReader::Open(directory_.db_path()));
  }
  return reader_.get();
}

Status RunView::OpenDatabase() {
  if (db_) return Ok();
  TM_ASSIGN_OR_RETURN(db_, OpenRunDbToRead(directory_.db_path()));
  return Ok();
}

// With the options of the run: the bank is then what the run's is.
Status RunView::OpenMemory() {
  TM_ASSIGN_OR_RETURN(const std::string text, directory_.ReadConfig());
  TM_ASSIGN_OR_RETURN(const auto flat, FlattenToml(text, directory_.config_path()));
  const auto value = [&](const char* key) {
    const auto found = flat.find(key);
    return found == flat.end() ? nlohmann::json()
                               : nlohmann::json::parse(found->second, nullptr, false);
  };
  if (value("memory.on") != true) return Invalid("this run has no memory (memory.on)");
  MemoryConfig options;
  if (const auto capacity = value("memory.capacity"); capacity.is_number_unsigned()) {
    options.capacity = capacity.get<uint32_t>();
  }
  if (const auto failures = value("memory.failures"); failures.is_boolean()) {
    options.failures = failures.get<bool>();
  }
  memory_ = std::make_unique<MemoryHistory>(options);
  return Ok();
}

Result<TaskTrends> RunView::Trends(v1::Purpose purpose, uint32_t intervals) {
  MutexLock lock(db_mutex_);
  TM_RETURN_IF_ERROR(OpenDatabase());
  TM_ASSIGN_OR_RETURN(const int64_t mark, ChangeMark(*db_));
  const std::pair<int, uint32_t> key(purpose, intervals);
  const int64_t now = SteadyMs();
  const auto it = trends_.find(key);
  if (it != trends_.end() &&
      (it->second.mark == mark || now - it->second.read_ms < kTrendsFreshMs)) {
    return it->second.trends;
  }
  TM_ASSIGN_OR_RETURN(TaskTrends trends, ReadTaskTrends(*db_, purpose, intervals));
  if (trends_.size() >= kKeptTrendsMax) trends_.clear();
  trends_[key] = {trends, mark, now};
  return trends;
}

std::optional<Tokenizer> RunView::tokenizer() {
  MutexLock lock(tokenizer_mutex_);
  if (tokenizer_tried_) return tokenizer_;
  tokenizer_tried_ = true;
  const Result<std::string> config = directory_.ReadConfig();
  if (!config.ok()) return tokenizer_;
  const auto flat = FlattenToml(*config, directory_.config_path());
  if (!flat.ok()) return tokenizer_;
  nlohmann::json path;
  for (const char* key : {"model.tokenizer", "model.path"}) {
    if (flat->contains(key)) path = nlohmann::json::parse(flat->at(key), nullptr, false);
    if (path.is_string() && !path.get<std::string>().empty()) break;
  }
  if (!path.is_string()) return tokenizer_;
  Result<Tokenizer> read = Tokenizer::Read(path.get<std::string>());
  if (read.ok()) tokenizer_ = std::move(*read);
  return tokenizer_;
}

Result<std::shared_ptr<RunView>> RunViews::Get(const std::string& name) {
  MutexLock lock(mutex_);
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i].first != name) continue;
    auto entry = open_[i];
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
    if (!entry.second->Current()) break;  // made anew since, or still without a database
    open_.push_back(entry);
    return entry.second;
  }
  TM_ASSIGN_OR_RETURN(std::shared_ptr<RunView> view, RunView::Open(folder_, name));
  if (open_.size() == kOpenMax) open_.erase(open_.begin());
  open_.emplace_back(name, view);
  return view;
}

}  // namespace tidemill
