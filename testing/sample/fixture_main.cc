// Made-up runs for the tests of the page, and the server over them.
//   serve_fixture write FOLDER          the runs "async", "sync" and "failing"
//   serve_fixture memory FOLDER NAME    a run whose episodes became cases
//   serve_fixture live FOLDER NAME      a run that goes on until it is told to stop (standard input
//   ends) serve_fixture serve FOLDER PAGE PORT RUN [TOKEN]     until standard input ends; prints
//   its address serve_fixture export FOLDER PAGE RUN FILE
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/log.h"
#include "dashboard/dashboard.h"
#include "testing/sample/sample_run.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

// Whether standard input ended within `timeout_ms`.
bool InputEnded(int timeout_ms) {
  struct pollfd entry = {STDIN_FILENO, POLLIN, 0};
  if (poll(&entry, 1, timeout_ms) <= 0) return false;
  char buffer[256];
  return read(STDIN_FILENO, buffer, sizeof(buffer)) <= 0;
}

SampleOptions Base() {
  SampleOptions options;
  options.model = "tests/golden/qwen3-tiny";  // below the folder of the sources
  return options;
}

int Write(const std::string& folder) {
  SampleOptions options = Base();
  WriteSampleRun(folder, "async", options);
  options.synchronous = true;
  options.seed = 2;
  WriteSampleRun(folder, "sync", options);
  options = Base();
  options.seed = 3;
  options.steps = 12;
  options.finished = false;
  SampleRun failing(folder, "failing", options);
  failing.WriteAll();
  failing.Warn("the reward fell to less than half of its best; the policy may have collapsed");
  return 0;
}

int Memory(const std::string& folder, const std::string& name) {
  SampleOptions options = Base();
  options.memory = true;
  options.steps = 8;
  WriteSampleRun(folder, name, options);
  return 0;
}

int Live(const std::string& folder, const std::string& name) {
  SampleOptions options = Base();
  const RealClock clock;
  options.begin_ms = clock.WallMs();
  options.live = true;
  options.groups_per_step = 2;  // a step takes about two seconds of its time
  SampleRun run(folder, name, options);
  run.Evaluate("before");
  for (int i = 0; !InputEnded(250); ++i) {
    if (i % 8 == 0) run.WriteStep();
    run.Tick(clock.WallMs());
  }
  return 0;
}

int Serve(const std::vector<std::string>& words) {
  ServeOptions options;
  options.api.folder = words[2];
  options.api.default_run = words[5];
  options.api.default_config_toml = "[staleness]\nmax_steps = 1\n[learner]\nlearning_rate = 1e-5\n";
  options.page_folder = words[3];
  options.http.port = static_cast<uint16_t>(std::stoi(words[4]));
  if (words.size() > 6) options.http.tokens = {words[6]};
  auto server = ServeRuns(options);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().message().c_str());
    return 1;
  }
  std::printf("%s\n", (*server)->url().c_str());
  std::fflush(stdout);
  while (!InputEnded(1000)) {
  }
  return 0;
}

int Export(const std::vector<std::string>& words) {
  RunApiOptions api;
  api.folder = words[2];
  const Result<std::string> html = ExportRun(api, words[4], words[3]);
  if (!html.ok()) {
    std::fprintf(stderr, "%s\n", html.status().message().c_str());
    return 1;
  }
  std::ofstream(words[5], std::ios::binary) << *html;
  return 0;
}

int Main(const std::vector<std::string>& words) {
  const std::string what = words.size() > 1 ? words[1] : "";
  // So that what is shown names no folder of this machine.
  std::filesystem::current_path(SourceDir());
  if (what == "write" && words.size() == 3) return Write(words[2]);
  if (what == "memory" && words.size() == 4) return Memory(words[2], words[3]);
  if (what == "live" && words.size() == 4) return Live(words[2], words[3]);
  if (what == "serve" && (words.size() == 6 || words.size() == 7)) return Serve(words);
  if (what == "export" && words.size() == 6) return Export(words);
  std::fprintf(stderr, "usage: serve_fixture write|memory|live|serve|export ...\n");
  return 2;
}

}  // namespace
}  // namespace tidemill

int main(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  // The second is a folder, the third another, or a name.
  if (words.size() > 2) words[2] = std::filesystem::absolute(words[2]).string();
  if (words.size() > 3 && words[1] != "live" && words[1] != "memory")
    words[3] = std::filesystem::absolute(words[3]).string();
  if (words.size() > 5 && words[1] == "export")
    words[5] = std::filesystem::absolute(words[5]).string();
  return tidemill::Main(words);
}
