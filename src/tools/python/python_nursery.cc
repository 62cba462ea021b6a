#include "tools/python/python_nursery.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/enum_name.h"
#include "tools/box/box.h"
#include "tools/python/answer_filter.h"
#include "tools/python/nursery_program.h"

namespace tidemill {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kExamsMax = 20'000;                   // of one interpreter
constexpr Duration kAgeMax = std::chrono::minutes(30);   // the same
constexpr Duration kLifeMax = std::chrono::minutes(59);  // the box's own limit, never reached
constexpr size_t kResultBytesMax = size_t{64} << 20;
constexpr uint64_t kAnswerBytesMax = uint64_t{2} << 30;   // whatever the exam allows
constexpr uint64_t kOverheadBytes = uint64_t{256} << 20;  // of the interpreter, beside the answer

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string JobBytes(const PythonExam& exam) {
  std::string inputs;
  for (const std::string& input : exam.inputs) {
    if (!inputs.empty()) inputs += '\n';
    inputs += Json(input).dump(-1, ' ', true, Json::error_handler_t::replace);
  }
  const auto ms = [](Duration d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  };
  std::string head =
      fmt::format("{} {} {} {} {}", exam.code.size(), inputs.size(), ms(exam.limits.cpu),
                  ms(exam.limits.wall), std::min(exam.limits.memory_bytes, kAnswerBytesMax) >> 20);
  head.resize(kNurseryHeadBytes, ' ');
  return head + exam.code + inputs;
}

PythonAnswer ReadAnswer(const std::string& line) {
  // Whatever the answer made of the harness inside its own process, it is text to us.
  const Json json = Json::parse(line, nullptr, false);
  PythonAnswer answer;
  if (!json.is_object()) return answer;
  const auto text = [&](const char* key) {
    const auto it = json.find(key);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  answer.value = text("v");
  answer.shown = answer.value.empty() ? text("e") : text("r");
  return answer;
}

void ReadEnding(const Json& result, PythonReport& report) {
  const std::string end = result.value("end", "");
  const int status = result.value("code", 0);
  if (end == "wall") {
    report.outcome = v1::OUTCOME_TIMEOUT;
  } else if (end == "cpu" ||
             (end == "died" && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)) {
    report.outcome = v1::OUTCOME_CPU_LIMIT;
  } else if (end == "output") {
    report.outcome = v1::OUTCOME_OUTPUT_LIMIT;
  } else if (end == "died" && WIFSIGNALED(status)) {
    report.outcome = v1::OUTCOME_SIGNAL;
    report.exit_code = WTERMSIG(status);
  } else if (end == "died") {
    report.outcome = v1::OUTCOME_FAILED;
    report.exit_code = WEXITSTATUS(status);
  }
}

// The interpreter's line about one exam; nothing: it is none, the interpreter is broken.
std::optional<PythonReport> ReadReport(std::string_view line) {
  const Json result = Json::parse(line, nullptr, false);
  if (!result.is_object() || !result.contains("answers")) return std::nullopt;
  PythonReport report;
  try {
    if (result.at("first").is_string()) {
      const Json first = Json::parse(result.at("first").get<std::string>(), nullptr, false);
      if (first.is_object()) {
        report.loaded = first.contains("loaded");
        if (first.contains("e") && first["e"].is_string()) report.load_error = first["e"];
        if (first.contains("line") && first["line"].is_number_integer()) {
          report.syntax_line = std::max(1, first["line"].get<int>());
        }
      }
    }
    for (const Json& answer : result.at("answers")) {
      report.answers.push_back(ReadAnswer(answer.get<std::string>()));
    }
    ReadEnding(result, report);
    report.cpu_ms = result.at("cpu_ms").get<double>();
    report.wall_ms = result.at("wall_ms").get<double>();
    report.peak_memory_kb = result.at("rss_kb").get<uint64_t>();
    report.starved = result.at("starved").get<bool>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return report;
}

}  // namespace

// A thread, a box and the interpreter in it. Talks to it while it waits for the next exam: the
// conversation stands still in between.
class PythonNursery::Interpreter final : private Conversation {
 public:
  Interpreter(BoxPool& pool, std::string filter)
      : pool_(pool), filter_(std::move(filter)), thread_([this] { Live(); }) {}
  ~Interpreter() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  // kUnavailable: it ended. One call at a time.
  Result<PythonReport> Hold(const PythonExam& exam) {
    MutexLock lock(mutex_);
    if (ended_) return Unavailable(cause_);
    job_ = JobBytes(exam);
    report_.reset();
    changed_.NotifyAll();
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return report_ || ended_; });
    job_.clear();
    if (!report_) return Unavailable(cause_);
    return std::move(*report_);
  }
  bool ended() {
    MutexLock lock(mutex_);
    return ended_;
  }

 private:
  void Live() {
    const std::string cause = LiveInBox();
    MutexLock lock(mutex_);
    ended_ = true;
    cause_ = "the Python interpreter ended: " + cause;
    changed_.NotifyAll();
  }

  std::string LiveInBox() {
    BoxLimits limits;
    limits.wall = limits.cpu = kLifeMax;
    limits.output_bytes = uint64_t{1} << 30;
    limits.disk_bytes = uint64_t{8} << 20;
    limits.processes = 8;
    limits.memory_bytes = kAnswerBytesMax + kOverheadBytes;
    auto box = pool_.Take();
    if (!box.ok()) return box.status().message();
    Status status = (*box)->Configure(limits);
    if (status.ok()) status = (*box)->Put("nursery.py", kNurseryProgram);
    if (!status.ok()) return status.message();
    RunSpec spec;
    // Hashes are the same everywhere, so that the order of a set is.
    spec.command = {"python3", "-B", "-s", "-P", "-W", "ignore", "nursery.py", Hex(filter_)};
    spec.environment = {"PYTHONHASHSEED=0"};
    spec.limits = limits;
    spec.conversation = this;
    begun_ = std::chrono::steady_clock::now();
    const RunReport report = (*box)->Run(spec);
    return fmt::format("{} {} {} {}", EnumName(report.outcome), report.exit_code, report.cause,
                       report.err);
  }

  // Waits for the next exam; false: there will be none.
  bool Next(std::string* input) {
    MutexLock lock(mutex_);
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stopping_ || !job_.empty(); });
    if (stopping_) return false;
    *input += job_;
    job_.clear();
    return true;
  }
  bool Begin(std::string* input) override { return Next(input); }
  bool Heard(std::string_view output, std::string* input) override {
    heard_.append(output);
    const size_t end = heard_.find('\n');
    if (end == std::string::npos) return heard_.size() <= kResultBytesMax;
    std::optional<PythonReport> report = ReadReport(std::string_view(heard_).substr(0, end));
    heard_.clear();
    if (!report) return false;
    const bool old = ++exams_ >= kExamsMax || std::chrono::steady_clock::now() - begun_ > kAgeMax;
    {
      MutexLock lock(mutex_);
      report_ = std::move(report);
      if (old) {
        ended_ = true;
        cause_ = "old";
      }
    }
    changed_.NotifyAll();
    return !old && Next(input);
  }

  BoxPool& pool_;
  const std::string filter_;
  std::string heard_;
  uint64_t exams_ = 0;
  std::chrono::steady_clock::time_point begun_;
  Mutex mutex_;
  CondVar changed_;
  std::string job_ TM_GUARDED_BY(mutex_);  // not yet given to the interpreter
  std::optional<PythonReport> report_ TM_GUARDED_BY(mutex_);
  std::string cause_ TM_GUARDED_BY(mutex_);
  bool ended_ TM_GUARDED_BY(mutex_) = false;
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

PythonNursery::PythonNursery(BoxPool& pool) : pool_(pool), filter_(BuildAnswerFilter()) {}
PythonNursery::~PythonNursery() = default;

PythonNursery::Interpreter* PythonNursery::TakeIdle() {
  MutexLock lock(mutex_);
  while (!idle_.empty()) {
    Interpreter* interpreter = idle_.back();
    idle_.pop_back();
    if (!interpreter->ended()) return interpreter;
    std::erase_if(all_, [&](const auto& one) { return one.get() == interpreter; });
  }
  all_.push_back(std::make_unique<Interpreter>(pool_, *filter_));
  return all_.back().get();
}

void PythonNursery::GiveBack(Interpreter* interpreter) {
  MutexLock lock(mutex_);
  idle_.push_back(interpreter);
}

Result<PythonReport> PythonNursery::Hold(const PythonExam& exam) {
  if (!filter_.ok()) return filter_.status();
  for (const std::string& input : exam.inputs) {
    if (input.find('\n') != std::string::npos) {
      return Invalid("an input of a Python exam must be one line: " + input.substr(0, 80));
    }
  }
  TM_RETURN_IF_ERROR(CheckLimits(exam.limits));
  Result<PythonReport> report = Unavailable("not tried");
  for (int attempt = 0; attempt < 2 && !report.ok(); ++attempt) {
    Interpreter* interpreter = TakeIdle();
    report = interpreter->Hold(exam);
    GiveBack(interpreter);
  }
  return report;
}

}  // namespace tidemill
