// For tests: agents' programs in real boxes over a gateway whose answers are scripted.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agents/agent_runner.h"
#include "core/loop.h"
#include "gateway/plain_recorder.h"
#include "rollout/episode.h"
#include "testing/scripted_server.h"
#include "testing/test_kit.h"

namespace tidemill {

// Wakes a test that waits.
class TestWaker final : public Waker {
 public:
  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
    changed_.NotifyAll();
  }
  void Await() {
    MutexLock lock(mutex_);
    (void)changed_.WaitFor(lock, std::chrono::seconds(60),
                           [this]() TM_REQUIRES(mutex_) { return woken_; });
    woken_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool woken_ TM_GUARDED_BY(mutex_) = false;
};

// A little client: Ask(text) or Ask(text, key=.., path=..) gives status and body.
inline constexpr const char* kAgentClient = R"py(
import json, os, sys, urllib.request, urllib.error
def Call(path, body=None, key=os.environ["OPENAI_API_KEY"], base=os.environ["ANTHROPIC_BASE_URL"]):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Authorization": "Bearer " + key})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)
def Ask(messages, **more):
    if isinstance(messages, str): messages = [{"role": "user", "content": messages}]
    status, body = Call("/v1/chat/completions", dict(model="m", messages=messages, **more))
    return json.loads(body)["choices"][0]["message"]["content"] if status == 200 else status
def Write(name, text):
    with open(name, "w") as file: file.write(str(text))
)py";

class AgentTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteByteModel(dir_.path(), 4096).ok());
    policy_ = std::make_unique<ServedPolicy>(ReadServedPolicy(dir_.path()).value());
    lease_.set_group(7);
    lease_.set_members(1);
    lease_.set_seed(11);
    lease_.set_max_turns(8);
    lease_.mutable_sampling()->set_temperature(1);
    lease_.mutable_sampling()->set_max_turn_tokens(64);
    lease_.mutable_task()->set_id("t");
    lease_.mutable_task()->set_prompt("Say something");
  }

  // Others than the recorder's, before they start.
  virtual void AddLoops() {}

  // Answers of the model by the conversation before them.
  void Serve(AnswerScript script, Duration pace = {}) {
    server_.reset();
    loops_.reset();
    recorder_ = std::make_unique<EpisodeRecorder>(*policy_, clock_, episodes_,
                                                  std::make_unique<PlainRecorder>(*policy_));
    loops_ = std::make_unique<LoopRunner>();
    loops_->Add(*recorder_);
    AddLoops();
    ASSERT_TRUE(loops_->Start().ok());
    ScriptedOptions options;
    options.pace = pace;
    options.gateway.mcp = mcp_.get();
    server_ =
        std::make_unique<ScriptedServer>(dir_.path(), options, std::move(script), recorder_.get());
  }
  void Serve(const std::string& answer) {
    Serve([answer](const std::string&) { return answer; });
  }

  static AgentProgram Python(const std::string& script) {
    AgentProgram program;
    program.command = {"/usr/bin/python3", "-c", kAgentClient + script};
    program.limits.wall = program.limits.cpu = std::chrono::seconds(20);
    program.model = "policy";
    return program;
  }

  void Start(const AgentProgram& program, uint64_t tag = 1) {
    if (runner_ == nullptr) {
      AgentRunnerOptions options;
      options.program = program;
      options.slots = 4;
      options.give_up = give_up_;
      options.learns = true;
      options.boxes.cores = cores_;
      options.tools = mcp_.get();
      auto runner = AgentRunner::Create(options, server_->gateway(), *recorder_, nullptr, clock_);
      ASSERT_TRUE(runner.ok()) << runner.status().ToString();
      runner_ = std::move(*runner);
      runner_->events().Attach(waker_);
    }
    auto group = std::make_shared<EpisodeGroup>();
    group->lease = lease_;
    runner_->Start({group, 0}, tag);
  }
  AgentOutcome Finish() {
    for (int i = 0; i < 10; ++i) {
      std::vector<AgentDone> done = runner_->events().TakeAll();
      if (!done.empty()) return std::move(done[0].outcome);
      waker_.Await();
    }
    AgentOutcome none;
    none.status = Timeout("the agent did not end");
    return none;
  }
  AgentOutcome Run(const AgentProgram& program) {
    Start(program);
    return runner_ == nullptr ? AgentOutcome{} : Finish();
  }
  AgentOutcome Run(const std::string& script) { return Run(Python(script)); }

  static std::string FileOf(const AgentOutcome& outcome, const std::string& path) {
    for (const v1::File& file : outcome.tree.files()) {
      if (file.path() == path) return file.content();
    }
    return "(no such file)";
  }
  std::string TextOf(const google::protobuf::RepeatedField<uint32_t>& ids) const {
    return policy_->tokenizer.Decode(std::vector<TokenId>(ids.begin(), ids.end()));
  }

  uint32_t give_up_ = 0;
  size_t episodes_ = 16;  // open at once
  TemporaryDirectory dir_;
  size_t cores_ = 0;  // that boxes seem to have; 0: those there are
  RealClock clock_;
  v1::GroupLease lease_;
  std::unique_ptr<ServedPolicy> policy_;
  std::unique_ptr<EpisodeRecorder> recorder_;
  std::unique_ptr<EpisodeTools> mcp_;  // of a test that offers tools
  std::unique_ptr<LoopRunner> loops_;
  std::unique_ptr<ScriptedServer> server_;
  TestWaker waker_;
  std::unique_ptr<AgentRunner> runner_;
};

}  // namespace tidemill
