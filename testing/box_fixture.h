// For tests: one BoxHost for all of a suite, and short ways to run a command in a fresh box. Where
// bubblewrap cannot run these tests fail; they never skip.
#pragma once

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/box/box.h"
#include "tools/box/box_host.h"

namespace tidemill {

class BoxTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto created = BoxHost::Create({});
    ASSERT_TRUE(created.ok()) << created.status().ToString();
    host_ = std::move(*created);
  }
  static void TearDownTestSuite() { host_.reset(); }
  void SetUp() override { ASSERT_NE(host_, nullptr) << "no box could be opened"; }
  void TearDown() override {
    if (host_ != nullptr) host_->WaitForClosed();
  }

  static BoxHost& host() { return *host_; }

  static std::unique_ptr<Box> OpenBox(const BoxLimits& limits = {}) {
    auto box = host_->Open();
    TM_CHECK(box.ok(), box.status().message());
    const Status status = (*box)->Configure(limits);
    TM_CHECK(status.ok(), status.message());
    return std::move(*box);
  }

  static RunReport Shell(const std::string& script, const BoxLimits& limits = {}) {
    auto box = OpenBox(limits);
    RunSpec spec;
    spec.command = {"/bin/sh", "-c", script};
    spec.limits = limits;
    return box->Run(spec);
  }

  // Compiles a C program in a fresh box and runs it there.
  static RunReport RunC(const std::string& source, const BoxLimits& limits = {},
                        const std::vector<std::string>& flags = {}) {
    auto box = OpenBox(limits);
    const Status put = box->Put("main.c", source);
    TM_CHECK(put.ok(), put.message());
    RunSpec build;
    build.command = {"gcc", "-w", "-o", "/tmp/prog", "main.c"};
    build.command.insert(build.command.end(), flags.begin(), flags.end());
    const RunReport built = box->Run(build);
    if (built.outcome != v1::OUTCOME_OK) return built;
    RunSpec run;
    run.command = {"/tmp/prog"};
    run.limits = limits;
    return box->Run(run);
  }

  // Cgroups of this process's boxes, in the folders where they are made.
  static size_t CountCgroups() {
    const std::string prefix = "tidemill-" + std::to_string(getpid()) + "-";
    size_t count = 0;
    for (const std::string& parent : host_->CgroupFolders()) {
      for (const auto& entry : std::filesystem::directory_iterator(parent)) {
        if (entry.path().filename().string().starts_with(prefix)) ++count;
      }
    }
    return count;
  }

 private:
  static inline std::unique_ptr<BoxHost> host_;
};

}  // namespace tidemill
