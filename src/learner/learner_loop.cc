#include "learner/learner_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "core/message_check.h"
#include "core/metrics.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr MessageLimits kBatchLimits{.body_bytes = INT32_MAX};
constexpr PolicyId kSessionPolicy = PolicyId::kMain;  // whose versions releases are made of

}  // namespace

LearnerLoop::Line::Line(const LearnedPolicy& policy)
    : about(policy),
      steps(policy.steps_done),
      version(policy.version),
      version_step(policy.steps_done),
      checkpointed_step(policy.steps_done),
      whole_step(policy.steps_done) {}

LearnerLoop::LearnerLoop(Bus& bus, StorePort& store, Journal& journal, LearnerOptions options)
    : bus_(bus),
      store_(store),
      journal_(journal),
      options_(std::move(options)),
      inbox_(InboxTopic(options_.worker, "learner")),
      outbox_(bus) {
  TM_CHECK(!options_.trained.empty(), "a learner has a policy to train");
  for (const LearnedPolicy& policy : options_.trained) {
    const Line& line = lines_.emplace_back(policy);
    counters_.steps += line.steps;
    counters_.version = std::max<uint64_t>(counters_.version, line.version);
    if (policy.id == kSessionPolicy) released_step_ = line.steps;
  }
}

void LearnerLoop::Attach(Waker& waker) {
  // Of each line one batch, and repetitions.
  const Status opened = bus_.Open(inbox_, {.capacity = 8 * lines_.size()});
  if (!opened.ok()) throw std::runtime_error("opening " + inbox_ + ": " + opened.ToString());
  bus_.Subscribe(inbox_, waker);
  store_.events().Attach(waker);
  for (const Line& line : lines_) line.about.trainer->events().Attach(waker);
  if (options_.release != nullptr) options_.release->wishes().Attach(waker);
}

Time LearnerLoop::Step(Time now) {
  TakeStored();
  TakeTrainerEvents(now);
  TakeBatches();
  TakeWishes();
  BeginSetBack();
  TrainNext();
  for (Line& line : lines_) AskForBatch(line);
  FinishIfLast();
  outbox_.Flush(now);
  counters_.waiting_for_batch = !training_ && !counters_.done;
  return now + (outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(200));
}

LearnerLoop::Line* LearnerLoop::LineOf(PolicyId policy) {
  const auto found = std::find_if(lines_.begin(), lines_.end(),
                                  [&](const Line& line) { return line.about.id == policy; });
  return found == lines_.end() ? nullptr : &*found;
}

PolicyStep LearnerLoop::StepOf(const Line& line, uint64_t step) const {
  return {options_.policies.NameOf(line.about.id), step};
}

Words LearnerLoop::WordsOf(const Line& line, Words words) const {
  if (options_.policies.size() > 1) words["policy"] = options_.policies.Shown(line.about.id);
  return words;
}

void LearnerLoop::AddOwnStep(uint64_t step, Numbers& numbers) const {
  if (options_.policies.size() > 1) numbers["policy_step"] = static_cast<double>(step);
}

std::string LearnerLoop::PathOf(const Line& line) const {
  return fmt::format("{}/step-{:08}", line.about.checkpoint_folder, line.version_step);
}

void LearnerLoop::AskForBatch(Line& line) {
  if (line.asked_step || line.next_batch || LastStepTaken(line)) return;
  if (training_ && !options_.prefetch) return;
  const uint64_t step = line.steps + (training_ && &training_->line == &line ? 1 : 0);
  if (step >= options_.max_steps) return;
  if (options_.behind_max > 0 && step > released_step_ + options_.behind_max) return;
  v1::BatchRequest request;
  request.set_step(step);
  request.set_episodes(line.about.batch_episodes);
  request.set_live_episodes(line.about.live_episodes);
  request.set_reply_to(inbox_);
  request.set_version(line.version);
  request.set_policy(options_.policies.NameOf(line.about.id));
  line.asked_step = step;
  outbox_.Request(kBatchRequestsTopic, inbox_, request.SerializeAsString());
}

void LearnerLoop::TakeBatches() {
  for (Lease& lease : TakeFrom(bus_, inbox_, 4 * lines_.size())) {
    v1::Batch batch;
    // From replay in this process, which checked what is in it.
    if (const Status read = ParseMessage(lease.body, batch, kBatchLimits); !read.ok()) {
      (void)bus_.Reject(lease, read.message());
      continue;
    }
    const auto policy = options_.policies.Find(batch.policy());
    Line* const line = policy.ok() ? LineOf(*policy) : nullptr;
    if (line == nullptr) {
      (void)bus_.Reject(lease, "a batch of a policy that is not trained");
      continue;
    }
    (void)bus_.Ack(lease);
    if (!line->asked_step || batch.step() != *line->asked_step) continue;  // a repetition
    line->asked_step.reset();
    line->next_batch = std::move(batch);
    ready_.push_back(line);
  }
}

void LearnerLoop::TrainNext() {
  // A trainer carries out commands in order: the last step's weights must be on their way before
  // the next step changes them.
  if (training_ || !to_publish_.empty() || ready_.empty() || setting_back_ != 0) return;
  Line& line = *ready_.front();
  if (LastStepTaken(line)) return;
  ready_.pop_front();
  training_.emplace(Training{line, std::move(*line.next_batch)});
  line.next_batch.reset();
  line.about.trainer->Train(training_->batch);
  reserve_tag_ = next_tag_++;
  store_.Submit(ReserveVersion{counters_.steps + 1, StepOf(line, line.steps + 1)}, reserve_tag_);
}

void LearnerLoop::TakeTrainerEvents(Time now) {
  for (Line& line : lines_) {
    for (TrainerEvent& event : line.about.trainer->events().TakeAll()) {
      if (auto* trained = std::get_if<TrainDone>(&event)) OnTrained(line, *trained, now);
      if (auto* published = std::get_if<PublishDone>(&event)) OnPublished(line, *published);
      if (auto* checkpoint = std::get_if<CheckpointDone>(&event)) OnCheckpoint(line, *checkpoint);
      if (auto* back = std::get_if<SetBackDone>(&event)) OnSetBack(line, *back);
    }
  }
}

void LearnerLoop::OnTrained(Line& line, const TrainDone& done, Time now) {
  TM_CHECK(training_ && &training_->line == &line, "a trainer finished a step it was not given");
  if (!done.status.ok()) {
    const bool several = options_.policies.size() > 1;
    throw std::runtime_error(
        (several ? "policy " + options_.policies.Shown(line.about.id) + ", " : "") + "step " +
        std::to_string(done.step + 1) + ": " + done.status.message());
  }
  const uint64_t steps = counters_.steps + 1;
  counters_.steps = steps;
  ++line.steps;
  Numbers numbers = done.metrics;
  numbers["step"] = static_cast<double>(steps);
  AddOwnStep(line.steps, numbers);
  if (trained_at_ != Time::min()) numbers["seconds_between_steps"] = Seconds(now - trained_at_);
  trained_at_ = now;
  if (auto tokens = numbers.find("tokens"); tokens != numbers.end()) {
    counters_.tokens += static_cast<uint64_t>(tokens->second);
  }
  if (auto seconds = numbers.find("seconds"); seconds != numbers.end()) {
    Observe("tidemill_train_step_seconds", "Time of a training step", seconds->second);
  }
  WatchReward(line, training_->batch, numbers);
  journal_.Record("step", numbers, WordsOf(line));
  const auto figure = [&](const char* name) {
    const auto it = numbers.find(name);
    return it == numbers.end() ? std::nullopt : std::optional(it->second);
  };
  if (line.about.id == kSessionPolicy) {
    Tell(options_.listeners, StepTrained{line.steps, figure("entropy"), figure("kl")});
  }
  PutStep record;
  record.step = steps;
  record.of = StepOf(line, line.steps);
  for (const v1::Sample& sample : training_->batch.samples())
    record.used.push_back(sample.trajectory().id());
  record.metrics_json = nlohmann::json(numbers).dump();  // what is no number is null
  training_.reset();
  to_publish_.push_back({line, std::move(record)});
  PublishIfReserved();
}

void LearnerLoop::WatchReward(Line& line, const v1::Batch& batch, Numbers& numbers) {
  double reward = 0, solved = 0;
  for (const v1::Sample& sample : batch.samples()) {
    reward += sample.verdict().reward();
    solved += sample.verdict().solved() ? 1 : 0;
  }
  const double count = std::max(1, batch.samples_size());
  numbers["reward"] = reward / count;
  numbers["batch_pass_rate"] = solved / count;
  numbers["episodes"] = batch.samples_size();
  if (const std::optional<RewardWatch::Drop> drop =
          line.reward_watch.Add(reward, batch.samples_size())) {
    journal_.Record(
        "warning", {{"reward", drop->mean}, {"best", drop->best}},
        WordsOf(line, {{"what", "the mean reward of the last " + std::to_string(drop->episodes) +
                                    " episodes fell to less than half of its best; the policy may "
                                    "have collapsed (check the entropy and lower the learning "
                                    "rate)"}}));
  }
}

void LearnerLoop::PublishIfReserved() {
  if (to_publish_.empty() || !reserved_) return;
  Line& line = to_publish_.front().line;
  PutStep record = std::move(to_publish_.front().record);
  to_publish_.pop_front();
  record.version = *reserved_;
  reserved_.reset();
  counters_.version = record.version;
  line.version = record.version;
  line.version_step = line.steps;
  publishing_.push_back({line, record.version, line.version_step, record.step});
  TellVersion(line);
  line.about.trainer->Publish(record.version, line.version_step);
  // Before the next Train, so that the checkpoint holds this step's weights.
  const bool due = options_.checkpoint_every_steps > 0 &&
                   line.version_step % options_.checkpoint_every_steps == 0;
  if (due || LastStepTaken(line)) Checkpoint();
  store_.Submit(std::move(record), next_tag_++);
}

// Before anybody can have the weights: replay takes no trajectory of a version it has not heard of.
void LearnerLoop::TellVersion(const Line& line) {
  v1::VersionPublished published;
  published.set_version(line.version);
  published.set_step(line.version_step);
  published.set_policy(options_.policies.NameOf(line.about.id));
  std::string body = published.SerializeAsString();
  if (!bus_.Publish(kVersionsTopic, body).ok()) outbox_.Publish(kVersionsTopic, std::move(body));
}

// Of the lines that took steps since theirs was written, or whose could not be.
void LearnerLoop::Checkpoint() {
  if (lines_.front().about.checkpoint_folder.empty()) return;
  Cut cut{.run_step = counters_.steps, .version = counters_.version};
  cut.path = PathOf(lines_.front());
  for (Line& line : lines_) {
    cut.steps[&line] = line.version_step;
    if (line.checkpointed_step >= line.version_step && !line.checkpoint_failed) continue;
    line.checkpointed_step = line.version_step;
    line.checkpoint_failed = false;
    cut.waiting.insert(&line);
    line.about.trainer->Checkpoint({.step = line.version_step,
                                    .version = line.version,
                                    .path = PathOf(line),
                                    .keep_step = line.whole_step});
  }
  if (!cut.waiting.empty()) cuts_.push_back(std::move(cut));
}

void LearnerLoop::OnPublished(Line& line, const PublishDone& done) {
  TM_CHECK(!publishing_.empty() && publishing_.front().version == done.version &&
               &publishing_.front().line == &line,
           "a trainer published a version it was not asked for");
  const Publishing published = publishing_.front();
  publishing_.pop_front();
  if (!done.status.ok()) throw std::runtime_error("publishing: " + done.status.ToString());
  Numbers numbers = {{"version", static_cast<double>(done.version)},
                     {"step", static_cast<double>(published.run_step)},
                     {"seconds", done.seconds}};
  AddOwnStep(published.step, numbers);
  journal_.Record("publish", numbers, WordsOf(line));
  if (line.about.id == kSessionPolicy) {
    Tell(options_.listeners, VersionMade{done.version, published.step});
  }
  Observe("tidemill_publish_seconds", "Time to publish a version of the weights", done.seconds);
  v1::DispatchEvent event;
  event.mutable_step()->set_step(published.step);
  event.mutable_step()->set_version(done.version);
  event.mutable_step()->set_policy(options_.policies.NameOf(line.about.id));
  outbox_.Publish(kDispatchTopic, event.SerializeAsString());
}

void LearnerLoop::Observe(const char* name, const char* help, double seconds) {
  if (options_.metrics != nullptr) options_.metrics->Histogram(name, help).Observe(seconds);
}

void LearnerLoop::OnCheckpoint(Line& line, const CheckpointDone& done) {
  const auto cut = std::find_if(cuts_.begin(), cuts_.end(),
                                [&](const Cut& one) { return one.waiting.contains(&line); });
  TM_CHECK(cut != cuts_.end(), "a trainer wrote a checkpoint it was not asked for");
  cut->waiting.erase(&line);
  Numbers numbers = {{"step", static_cast<double>(cut->run_step)}};
  AddOwnStep(done.step, numbers);
  if (done.status.ok()) {
    Observe("tidemill_checkpoint_seconds", "Time to write a checkpoint", done.seconds);
    numbers.insert({{"seconds", done.seconds},
                    {"pause_seconds", done.pause_seconds},
                    {"copy_seconds", done.copy_seconds},
                    {"write_seconds", done.write_seconds}});
    journal_.Record("checkpoint", numbers, WordsOf(line, {{"path", done.path}}));
  } else {
    // Training goes on: the next checkpoint may succeed, and the last good one is still there.
    journal_.Record("warning", numbers,
                    WordsOf(line, {{"what", "checkpoint failed: " + done.status.ToString()}}));
    line.checkpoint_failed = true;
    // Those behind it that did not write the line's anew stand on it.
    for (auto later = cut; later != cuts_.end(); ++later) {
      later->failed = later->failed || !later->waiting.contains(&line);
    }
  }
  FinishCuts();
}

// In order: one that is whole may stand on what an earlier one wrote.
void LearnerLoop::FinishCuts() {
  while (!cuts_.empty() && cuts_.front().waiting.empty()) {
    const Cut cut = std::move(cuts_.front());
    cuts_.pop_front();
    if (cut.failed) continue;
    for (const auto& [line, step] : cut.steps) line->whole_step = step;
    ++counters_.checkpoints;
    store_.Submit(PutCheckpoint{cut.run_step, cut.version, cut.path}, next_tag_++);
  }
}

void LearnerLoop::TakeWishes() {
  if (options_.release == nullptr) return;
  for (const ReleaseWish& wish : options_.release->wishes().TakeAll()) {
    released_step_ = wish.step;
    if (Line* const line = LineOf(kSessionPolicy)) line->about.trainer->NeedOnly(wish.keep);
    if (wish.set_back) set_back_to_ = *wish.set_back;
  }
}

// Between two steps, with a number of its own: what is drawn from it counts as of the last step.
void LearnerLoop::BeginSetBack() {
  const Line* const line = LineOf(kSessionPolicy);
  if (set_back_to_ == 0 || setting_back_ != 0 || training_ || !to_publish_.empty() ||
      line == nullptr) {
    return;
  }
  setting_back_ = std::exchange(set_back_to_, 0);
  set_back_tag_ = next_tag_++;
  store_.Submit(ReserveVersion{counters_.steps, StepOf(*line, line->version_step)}, set_back_tag_);
}

void LearnerLoop::OnSetBack(Line& line, const SetBackDone& done) {
  setting_back_ = 0;
  Tell(options_.listeners, LearnerSetBack{done.status, done.version, done.step});
  const Numbers numbers = {{"to", static_cast<double>(done.to)},
                           {"version", static_cast<double>(done.version)},
                           {"step", static_cast<double>(done.step)}};
  if (done.status.ok()) {
    journal_.Record("set_back", numbers, WordsOf(line));
    return;
  }
  journal_.Record("set_back_failed", numbers, WordsOf(line, {{"why", done.status.message()}}));
  journal_.Record(
      "warning", numbers,
      WordsOf(line, {{"what", "the learner could not be set back to the released version: " +
                                  done.status.message()}}));
}

void LearnerLoop::TakeStored() {
  for (StoreDone& done : store_.events().TakeAll()) {
    if (!done.status.ok())
      throw std::runtime_error("the run's database: " + done.status.ToString());
    if (done.tag == set_back_tag_) {
      Line& line = *LineOf(kSessionPolicy);
      line.version = counters_.version = done.version;
      TellVersion(line);
      line.about.trainer->SetBack({setting_back_, done.version, line.version_step});
      continue;
    }
    if (done.tag != reserve_tag_) continue;
    reserved_ = done.version;
    PublishIfReserved();
  }
}

// When the last step is out: a checkpoint of it, then word to the dispatcher, then done.
void LearnerLoop::FinishIfLast() {
  const bool last = std::all_of(lines_.begin(), lines_.end(),
                                [this](const Line& line) { return LastStepTaken(line); });
  if (!last || training_ || !to_publish_.empty() || !publishing_.empty() || last_told_) return;
  const bool due = std::any_of(lines_.begin(), lines_.end(), [](const Line& line) {
    return line.checkpointed_step < line.version_step;
  });
  if (due) Checkpoint();  // where none was due before
  if (!cuts_.empty()) return;
  for (const Line& line : lines_) {
    v1::DispatchEvent event;
    event.mutable_step()->set_step(line.steps);
    event.mutable_step()->set_version(line.version);
    event.mutable_step()->set_last(true);
    event.mutable_step()->set_policy(options_.policies.NameOf(line.about.id));
    outbox_.Publish(kDispatchTopic, event.SerializeAsString());
  }
  last_told_ = true;
  counters_.done = true;
}

}  // namespace tidemill
