#include "sim/clients.h"

#include <algorithm>
#include <memory>
#include <set>

#include "bus/memory/memory_bus.h"
#include "core/hash.h"
#include "core/topics.h"
#include "live/live_recorder.h"
#include "live/session_name.h"
#include "sim/client_thread.h"
#include "sim/live_learner.h"
#include "sim/session_checks.h"
#include "sim/sim_memory.h"
#include "sim/sim_next_state.h"
#include "sim/sim_prompts.h"
#include "sim/sim_release.h"

namespace tidemill::sim {
namespace {

constexpr ProcessId kServer = 0, kClients = 1;
constexpr size_t kOthersMin = 1;

class ClientWorld {
 public:
  explicit ClientWorld(const SimOptions& options)
      : bug_(options.bug),
        world_(MixHash(options.seed, 0x636c69656e74), options.trace),
        bus_(world_.clock()),
        store_(world_, kServer, {}, 1) {
    Random& random = world_.random();
    habits_.Draw(random);
    samples_capacity_ = 1 + random.Below(20);
    OpenInsideTopics();
    if (random.Chance(0.5)) judge_ = std::make_unique<SimNextState>(world_, kClients, bus_);
    deletions_left_ = random.Chance(0.5) ? 0 : static_cast<int>(1 + random.Below(3));
    crashes_left_ = random.Chance(0.3) ? 0 : static_cast<int>(1 + random.Below(5));
    const uint64_t clients = 1 + random.Below(3);
    for (uint64_t client = 0; client < clients; ++client) AddThreads(client, random, threads_);
    siblings_ = random.Chance(0.5) ? 0 : 4;
    with_memory_ = random.Chance(0.5) || bug_ == Bug::kCaseOfAnotherTenant;
  }

  void Run(SimReport& report) {
    release_ =
        std::make_unique<SimRelease>(world_, store_, kClients, bug_ == Bug::kPinnedIsSwapped);
    StartServer();
    for (size_t i = 0; i < threads_.size(); ++i) {
      const bool late = with_memory_ && world_.random().Chance(0.5);  // when there are cases
      Later(late ? 8'000'000 : 500, [this, i] { Act(i); });
    }
    if (crashes_left_ > 0) Later(4000, [this] { Crash(); });
    if (deletions_left_ > 0) Later(5000, [this] { Delete(); });
    const bool ended = world_.Run(&bus_, world_.clock().Now() + std::chrono::hours(20),
                                  [this] { return AllDone(); });
    if (!world_.verdict().failed() && !ended) world_.verdict().Fail("clients wait for ever");
    if (!world_.verdict().failed()) CheckSessions(store_, ledger_, world_);
    if (!world_.verdict().failed()) CheckSignals(store_, signals_, kOthersMin, world_);
    if (!world_.verdict().failed() && with_memory_) CheckCases(store_, world_);
    if (!world_.verdict().failed() && memory_ != nullptr) memory_->CheckStored();
    for (const auto& [number, session] : store_.durable().sessions) {
      report.client_turns += session.turns.size();
    }
    report.client_retries += retries_;
    report.releases += release_->released();
    report.client_branches += edits_;
    report.client_deletions += store_.durable().erased.size();
    report.crashes += crashes_;
    report.loop_steps += world_.steps();
    world_.Tell(report);
    report.ok = !world_.verdict().failed();
    report.failure = world_.verdict().failure();
  }

 private:
  // On behalf of a client, within so many milliseconds.
  void Later(uint64_t within_ms, std::function<void()> what) {
    world_.After(milliseconds(1 + world_.random().Below(within_ms)), kClients, std::move(what));
  }

  // Those between loops of the server's process, empty: they die with it, and what was leased
  // from them too.
  void OpenInsideTopics() {
    for (const auto topic : {kLiveEventsTopic, kSiblingsWantedTopic, kSiblingsTopic,
                             kMemoryCasesTopic, kMemoryGroupsTopic}) {
      (void)bus_.Remove(topic);
      TopicOptions options;
      if (topic == kLiveEventsTopic) options.capacity = samples_capacity_;
      TM_CHECK(bus_.Open(topic, options).ok());
    }
  }

  void StartServer() {
    ++incarnation_;
    port_ = store_.NewClient();
    if (bug_ == Bug::kTrainedThroughBranches) port_ = NaiveBranches(std::move(port_), store_);
    learner_ = std::make_unique<LiveLearner>(
        world_, kServer, bus_, store_, store_.durable().live_steps, bug_ == Bug::kDeletedIsTrained);
    LiveLearning learning;
    learning.bus = &bus_;
    learning.signals.train = true;
    learning.signals.others_min = kOthersMin;
    learning.signals.siblings = siblings_;
    learning.signals.tasks = {TaskClass({})};  // of clients that say nothing of themselves
    if (judge_) learning.next_state = judge_->AskedBy(incarnation_);
    if (with_memory_) {
      memory_ = std::make_unique<SimMemory>(world_, kServer, bus_, store_,
                                            bug_ == Bug::kCaseOfAnotherTenant);
      learning.memory = memory_->ForSessions();
    }
    recorder_ = std::make_unique<LiveRecorder>(LiveOptions{}, prompts_, *port_, world_.clock(),
                                               store_.Sessions(), store_.Live(), learning);
    world_.AddLoop(kServer, recorder_->loop());
  }

  // Everything the server had in hand is gone; clients notice and send again.
  void Crash() {
    if (recorder_ == nullptr) return Later(2000, [this] { Crash(); });
    ++crashes_;
    --crashes_left_;
    world_.Trace("the server dies");
    world_.Fault("server killed");
    world_.Kill(kServer, bus_);
    store_.Crash();
    recorder_.reset();
    memory_.reset();
    learner_.reset();
    port_.reset();
    OpenInsideTopics();
    for (const auto& [key, score] : reacting_) signals_.open[key].insert(score);
    reacting_.clear();
    for (size_t i = 0; i < threads_.size(); ++i) {
      ClientThread& thread = threads_[i];
      thread.arriving = 0;
      if (thread.answered) continue;
      for (auto it = repeats_.find(thread.question); it != repeats_.end();
           it = repeats_.find(it->second)) {
        ledger_.ambiguous.insert({it->first, it->second});
      }
      thread.open_requests = 0;
      const uint64_t question = thread.question;
      Later(3000, [this, i, question] { SendAgain(i, question, false); });
    }
    Later(1500, [this] { StartServer(); });
    if (crashes_left_ > 0) Later(8000, [this] { Crash(); });
  }

  // Somebody wants a session gone, whatever it is doing, and whether the server runs or not.
  void Delete() {
    if (--deletions_left_ > 0) Later(5000, [this] { Delete(); });
    if (ledger_.requests.empty()) return;
    auto any = ledger_.requests.begin();
    std::advance(any, static_cast<long>(world_.random().Below(ledger_.requests.size())));
    Delete(any->second.number);
  }

  void Delete(uint64_t number) {
    const bool stored = store_.durable().sessions.contains(number);
    const bool here = recorder_ != nullptr && !recorder_->Erase({.session = number}).empty();
    // A crash may have taken it before it was stored; its number is another's then.
    if (!here && !stored) return;
    if (recorder_ != nullptr) recorder_->Forget({number});
    world_.Trace("session " + std::to_string(number) + " is deleted");
    world_.Fault("session deleted");
    store_.Erase(number);
    if (memory_ != nullptr) memory_->Erase(number);
    for (auto& [id, request] : ledger_.requests) {
      if (request.number != number) continue;
      request.deleted = true;
      threads_[request.thread].haunted = true;
      for (const char* source : {"program", "person"}) signals_.acknowledged.erase({id, source});
    }
    for (ClientThread& thread : threads_) {
      if (!thread.exact.empty() && ledger_.requests.at(thread.exact).deleted) thread.exact.clear();
    }
    AwaitGone(number, incarnation_);
  }

  // A deletion is done when all that was on its way to a batch has been passed over.
  void AwaitGone(uint64_t number, int incarnation) {
    if (recorder_ == nullptr || incarnation != incarnation_) return;  // gone with the process
    if (recorder_->Untaught()) return learner_->Gone(number);
    Later(50, [this, number, incarnation] { AwaitGone(number, incarnation); });
  }

  bool AllDone() {
    for (const ClientThread& thread : threads_) {
      if (!thread.answered || thread.questions_left > 0) return false;
    }
    if (recorder_ == nullptr || crashes_left_ + deletions_left_ > 0 || !recorder_->loop().Drained())
      return false;
    if (reactions_left_ > 0 || recorder_->counters().judging > 0 || !Learned()) return false;
    const auto& sessions = store_.durable().sessions;
    return std::all_of(sessions.begin(), sessions.end(),
                       [](const auto& one) { return one.second.session.closed_ms() != 0; });
  }

  // What can be trained was: the topic is empty and nothing waits for a step or for the store.
  bool Learned() {
    const auto depth = bus_.Depth(kLiveEventsTopic);
    const uint64_t busy = depth.ok() ? depth->ready + depth->leased : 0;
    return busy == 0 && recorder_->counters().unsent == 0 && recorder_->counters().awaiting == 0 &&
           learner_->waiting() == 0 && store_.idle() && (memory_ == nullptr || memory_->Idle());
  }

  // The client says what it thinks of an answer it saw, at once or much later, maybe twice.
  void React(const std::string& id) {
    if (!world_.random().Chance(habits_.react)) return;
    const uint64_t times = world_.random().Chance(0.3) ? 2 : 1;
    for (uint64_t n = 0; n < times; ++n) {
      ++reactions_left_;
      const uint64_t within = world_.random().Chance(0.2) ? 3'000'000 : 3000;
      Later(within, [this, id] { Post(id); });
    }
  }

  void Post(const std::string& id) {
    if (recorder_ == nullptr) return Later(500, [this, id] { Post(id); });
    if (ledger_.requests.at(id).deleted) {
      --reactions_left_;
      return;
    }
    const char* source = world_.random().Chance(0.3) ? "program" : "person";
    const double score = static_cast<double>(world_.random().Below(9)) / 4 - 1;
    const WireJson body = {{"id", id}, {"score", score}, {"source", source}};
    const SignalLedger::Key key{id, source};
    // One after the other: which of two at once is the newer only the server knows.
    if (reacting_.contains(key)) return Later(500, [this, id] { Post(id); });
    reacting_[key] = score;
    --reactions_left_;
    const Tenant tenant = threads_[ledger_.requests.at(id).thread].Owner();
    const std::string text = body.dump();
    recorder_->TakeFeedback(
        {.tenant = tenant, .body = text, .session = "", .wall_ms = world_.clock().WallMs()},
        [this, key, score](const Result<std::string>& stored) {
          if (ledger_.requests.at(key.first).deleted) {
            // Stored or not, it is gone.
          } else if (stored.ok()) {
            signals_.acknowledged[key] = score;
            signals_.open.erase(key);
            const uint64_t number = ledger_.requests.at(key.first).number;
            if (world_.random().Chance(habits_.regret)) Later(3000, [=, this] { Delete(number); });
          } else {
            world_.verdict().Fail("a signal was refused: " + stored.status().message());
          }
          reacting_.erase(key);
        });
  }

  void Act(size_t i) {
    ClientThread& thread = threads_[i];
    if (!thread.answered || thread.questions_left == 0) return;
    --thread.questions_left;
    const bool was_here =
        recorder_ != nullptr && thread.asked_in == incarnation_ && thread.question != 0;
    // Asked once more on purpose: the last answer is taken back. While the server still has a
    // request of the same body this could not be told from a retry.
    if (was_here && thread.open_requests == 0 && world_.random().Chance(habits_.again) &&
        thread.history.back()["role"] == "assistant") {
      thread.history.erase(thread.history.size() - 1);
      repeats_[next_question_] = thread.question;
      thread.exact.clear();
    } else {
      if (world_.random().Chance(habits_.edit)) edits_ += thread.Edit(world_.random());
      thread.history.push_back(
          {{"role", "user"},
           {"content", thread.speaker + " asks " + std::to_string(next_question_)}});
    }
    thread.question = next_question_++;
    thread.answered = thread.lost = false;
    thread.end = thread.questions_left == 0 && world_.random().Chance(0.3);
    thread.asked_in = incarnation_;
    Send(i, false);
    const uint64_t question = thread.question;
    if (world_.random().Chance(habits_.twice)) {
      Later(30, [this, i, question] { SendAgain(i, question, false); });
    }
  }

  void SendAgain(size_t i, uint64_t question, bool declared) {
    ClientThread& thread = threads_[i];
    if (thread.question != question || thread.answered) return;
    if (recorder_ == nullptr) {
      Later(500, [this, i, question, declared] { SendAgain(i, question, declared); });
      return;
    }
    ++retries_;
    Send(i, declared);
  }

  void Send(size_t i, bool declared) {
    ClientThread& thread = threads_[i];
    if (recorder_ == nullptr) {
      const uint64_t question = thread.question;
      Later(500, [this, i, question] { SendAgain(i, question, false); });
      return;
    }
    const std::string id = "req_" + std::to_string(++next_request_);
    ClientRequest& request = ledger_.requests[id];
    request.question = thread.question;
    request.session = thread.session;
    ChatRequest body;
    body.messages = thread.history;
    std::map<std::string, std::string> headers;
    if (!thread.session.empty()) headers["x-session-id"] = thread.session;
    // Without it, a request that crosses an answer on its way is the same question once more.
    if (declared || thread.lost || thread.arriving > 0) headers["x-stainless-retry-count"] = "1";
    if (thread.end) headers[kSessionEndHeader] = "1";
    const Tenant tenant = thread.Owner();
    const std::string salt = bug_ == Bug::kRetryIsANewTurn ? id : "";
    auto prompt = recorder_->Prepare({.request = body,
                                      .tenant = tenant,
                                      .headers = headers,
                                      .request_id = id,
                                      .body_sha256 = Sha256Hex(body.messages.dump() + salt),
                                      .wall_ms = world_.clock().WallMs()});
    TM_CHECK(prompt.ok(), prompt.status().message());
    request.prompt = prompt->prompts[0];
    request.number = prompt->session;
    request.thread = i;
    if (thread.haunted) ledger_.Haunt(request);
    request.pin = release_->Pin(prompt->session);
    if (!thread.exact.empty() && !request.GoesOnFrom(ledger_.requests.at(thread.exact))) {
      world_.verdict().Fail("a conversation does not go on with the ids that were drawn");
    }
    ++thread.open_requests;
    world_.Trace(id + " asks question " + std::to_string(thread.question) + " in session " +
                 std::to_string(request.number));
    const uint64_t ticket = prompt->ticket;
    const auto takes = milliseconds(1 + world_.random().Below(400));
    if (world_.random().Chance(habits_.leave)) {
      world_.After(takes, kServer, [this, i, id, ticket] { Leave(i, id, ticket); });
    } else {
      world_.After(takes, kServer, [this, i, id, ticket] { Finish(i, id, ticket); });
    }
  }

  RecordedTurn Draw(const std::string& id, uint64_t ticket) {
    ClientRequest& request = ledger_.requests.at(id);
    RecordedTurn turn;
    turn.ticket = ticket;
    const uint64_t tokens = 1 + world_.random().Below(5);
    for (uint64_t n = 0; n < tokens; ++n) {
      turn.output.ids.push_back(static_cast<TokenId>(100 + world_.random().Below(50)));
    }
    turn.output.ids.push_back(SimPrompts::kEnd);
    for (size_t n = 0; n < turn.output.ids.size(); ++n) {
      turn.output.logprobs.push_back(-static_cast<float>(++drawn_) / 65536.0f);
    }
    turn.output.versions =
        release_->Draw(request.pin, static_cast<uint32_t>(turn.output.ids.size()));
    // Some answers are alike, but no two to the same question: which one a client goes on from
    // could not be told.
    uint64_t question = request.question;
    while (repeats_.contains(question)) question = repeats_.at(question);
    const bool alike = world_.random().Chance(0.3) && said_ok_.insert(question).second;
    turn.message = {{"role", "assistant"}, {"content", alike ? "ok" : "answer " + id}};
    request.alike = alike;
    request.ids = turn.output.ids;
    request.logprobs = turn.output.logprobs;
    return turn;
  }

  void Leave(size_t i, const std::string& id, uint64_t ticket) {
    world_.Trace(id + " is abandoned");
    world_.Fault("client left");
    RecordedTurn turn = Draw(id, ticket);
    ledger_.requests.at(id).cut = true;
    recorder_->Abandoned(std::move(turn), TurnLoss::kClientLeft, Closed("the client left"));
    --threads_[i].open_requests;
    const uint64_t question = threads_[i].question;
    Later(1000, [this, i, question] { SendAgain(i, question, world_.random().Chance(0.5)); });
  }

  void Finish(size_t i, const std::string& id, uint64_t ticket) {
    RecordedTurn turn = Draw(id, ticket);
    const WireJson message = turn.message;
    recorder_->Finished(std::move(turn), [this, i, id, message](const Status& status) {
      TM_CHECK(status.ok(), status.message());
      const auto takes = milliseconds(1 + world_.random().Below(30));
      const bool lost = world_.random().Chance(habits_.loss);
      ++threads_[i].arriving;
      world_.After(takes, kServer, [this, i, id, message, lost] { Arrive(i, id, message, lost); });
    });
  }

  void Arrive(size_t i, const std::string& id, WireJson message, bool lost) {
    ClientThread& thread = threads_[i];
    ClientRequest& request = ledger_.requests.at(id);
    --thread.open_requests;
    --thread.arriving;
    if (request.question != thread.question || thread.answered) return;  // a second answer
    if (lost) {
      world_.Fault("answer lost on its way");
      thread.lost = true;
      Later(1000, [this, i, at = thread.question] { SendAgain(i, at, true); });
      return;
    }
    world_.Trace(id + " is seen");
    request.seen = true;
    thread.answered = true;
    React(id);
    // Clients write answers anew; sometimes as another text.
    if (world_.random().Chance(0.3)) {
      message["content"] = "\n" + message["content"].get<std::string>() + " \n";
    }
    thread.exact = request.deleted ? "" : id;
    if (world_.random().Chance(habits_.edit / 4)) {
      message["content"] = "rewritten " + id;
      thread.exact.clear();
    }
    thread.history.push_back(std::move(message));
    Later(3000, [this, i] { Act(i); });
  }

  const Bug bug_;
  World world_;
  MemoryBus bus_;
  SimStore store_;
  SimPrompts prompts_;
  std::unique_ptr<StorePort> port_;
  std::unique_ptr<SimNextState> judge_;  // null: nobody judges
  std::unique_ptr<LiveLearner> learner_;
  bool with_memory_ = false;
  std::unique_ptr<SimMemory> memory_;  // with memory, of the server
  std::unique_ptr<LiveRecorder> recorder_;
  std::unique_ptr<SimRelease> release_;
  ClientLedger ledger_;
  SignalLedger signals_;
  std::map<SignalLedger::Key, double> reacting_;  // posted, not answered
  int reactions_left_ = 0;
  std::vector<ClientThread> threads_;
  std::map<uint64_t, uint64_t> repeats_;  // a question asked again on purpose -> the one before
  std::set<uint64_t> said_ok_;
  ClientHabits habits_;
  int crashes_left_ = 0, deletions_left_ = 0, incarnation_ = 0;
  uint64_t next_question_ = 1, next_request_ = 0, drawn_ = 0;
  uint64_t crashes_ = 0, retries_ = 0, edits_ = 0, samples_capacity_ = 0;
  uint32_t siblings_ = 0;
};

}  // namespace

void RunClients(const SimOptions& options, SimReport& report) {
  ClientWorld(options).Run(report);
}

}  // namespace tidemill::sim
