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

}  // namespace

LearnerLoop::LearnerLoop(Bus& bus, StorePort& store, TrainerPort& trainer, Journal& journal,
                         LearnerOptions options)
    : bus_(bus),
      store_(store),
      trainer_(trainer),
      journal_(journal),
      options_(std::move(options)),
      inbox_(InboxTopic(options_.worker, "learner")),
      outbox_(bus),
      version_step_(options_.steps_done),
      checkpointed_step_(options_.steps_done),
      released_step_(options_.steps_done) {
  counters_.steps = options_.steps_done;
  counters_.version = options_.version;
}

void LearnerLoop::Attach(Waker& waker) {
  const Status opened = bus_.Open(inbox_, {.capacity = 8});
  if (!opened.ok()) throw std::runtime_error("opening " + inbox_ + ": " + opened.ToString());
  bus_.Subscribe(inbox_, waker);
  store_.events().Attach(waker);
  trainer_.events().Attach(waker);
  if (options_.release != nullptr) options_.release->wishes().Attach(waker);
  reserve_tag_ = next_tag_++;
  store_.Submit(ReserveVersion{options_.steps_done + 1}, reserve_tag_);
}

Time LearnerLoop::Step(Time now) {
  TakeStored();
  TakeTrainerEvents(now);
  TakeBatches();
  TakeWishes();
  BeginSetBack();
  TrainNext();
  AskForBatch();
  FinishIfLast();
  outbox_.Flush(now);
  counters_.waiting_for_batch = !training_ && !counters_.done;
  return now + (outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(200));
}

void LearnerLoop::AskForBatch() {
  if (asked_step_ || next_batch_ || LastStepTaken()) return;
  if (training_ && !options_.prefetch) return;
  const uint64_t step = counters_.steps + (training_ ? 1 : 0);
  if (step >= options_.max_steps) return;
  if (options_.behind_max > 0 && step > released_step_ + options_.behind_max) return;
  v1::BatchRequest request;
  request.set_step(step);
  request.set_episodes(options_.batch_episodes);
  request.set_live_episodes(options_.live_episodes);
  request.set_reply_to(inbox_);
  request.set_version(counters_.version);
  asked_step_ = step;
  outbox_.Request(kBatchRequestsTopic, inbox_, request.SerializeAsString());
}

void LearnerLoop::TakeBatches() {
  for (Lease& lease : TakeFrom(bus_, inbox_, 4)) {
    v1::Batch batch;
    // From replay in this process, which checked what is in it.
    if (const Status read = ParseMessage(lease.body, batch, kBatchLimits); !read.ok()) {
      (void)bus_.Reject(lease, read.message());
      continue;
    }
    (void)bus_.Ack(lease);
    if (!asked_step_ || batch.step() != *asked_step_) continue;  // a repetition
    asked_step_.reset();
    next_batch_ = std::move(batch);
  }
}

void LearnerLoop::TrainNext() {
  // The trainer carries out commands in order: the last step's weights must be on their way before
  // the next step changes them.
  if (training_ || !to_publish_.empty() || !next_batch_ || LastStepTaken()) return;
  if (setting_back_ != 0) return;
  training_ = std::move(next_batch_);
  next_batch_.reset();
  trainer_.Train(*training_);
}

void LearnerLoop::TakeTrainerEvents(Time now) {
  for (TrainerEvent& event : trainer_.events().TakeAll()) {
    if (auto* trained = std::get_if<TrainDone>(&event)) OnTrained(*trained, now);
    if (auto* published = std::get_if<PublishDone>(&event)) OnPublished(*published);
    if (auto* checkpoint = std::get_if<CheckpointDone>(&event)) OnCheckpoint(*checkpoint);
    if (auto* back = std::get_if<SetBackDone>(&event)) OnSetBack(*back);
  }
}

void LearnerLoop::OnTrained(const TrainDone& done, Time now) {
  TM_CHECK(training_.has_value(), "the trainer finished a step it was not given");
  if (!done.status.ok()) {
    throw std::runtime_error("step " + std::to_string(done.step + 1) + ": " +
                             done.status.message());
  }
  const uint64_t steps = counters_.steps + 1;
  counters_.steps = steps;
  Numbers numbers = done.metrics;
  numbers["step"] = static_cast<double>(steps);
  if (trained_at_ != Time::min()) numbers["seconds_between_steps"] = Seconds(now - trained_at_);
  trained_at_ = now;
  if (auto tokens = numbers.find("tokens"); tokens != numbers.end()) {
    counters_.tokens += static_cast<uint64_t>(tokens->second);
  }
  if (auto seconds = numbers.find("seconds"); seconds != numbers.end()) {
    Observe("tidemill_train_step_seconds", "Time of a training step", seconds->second);
  }
  WatchReward(*training_, numbers);
  journal_.Record("step", numbers, {});
  const auto figure = [&](const char* name) {
    const auto it = numbers.find(name);
    return it == numbers.end() ? std::nullopt : std::optional(it->second);
  };
  Tell(options_.listeners, StepTrained{steps, figure("entropy"), figure("kl")});
  PutStep record;
  record.step = steps;
  for (const v1::Sample& sample : training_->samples())
    record.used.push_back(sample.trajectory().id());
  record.metrics_json = nlohmann::json(numbers).dump();  // what is no number is null
  training_.reset();
  to_publish_.push_back(std::move(record));
  PublishIfReserved();
}

void LearnerLoop::WatchReward(const v1::Batch& batch, Numbers& numbers) {
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
          reward_watch_.Add(reward, batch.samples_size())) {
    journal_.Record(
        "warning", {{"reward", drop->mean}, {"best", drop->best}},
        {{"what", "the mean reward of the last " + std::to_string(drop->episodes) +
                      " episodes fell to less than half of its best; the policy may have "
                      "collapsed (check the entropy and lower the learning rate)"}});
  }
}

void LearnerLoop::PublishIfReserved() {
  if (to_publish_.empty() || !reserved_) return;
  PutStep record = std::move(to_publish_.front());
  to_publish_.pop_front();
  record.version = *reserved_;
  reserved_.reset();
  counters_.version = record.version;
  version_step_ = record.step;
  publishing_.emplace_back(record.version, record.step);
  TellVersion();
  trainer_.Publish(record.version, record.step);
  // Before the next Train, so that the checkpoint holds this step's weights.
  const bool due =
      options_.checkpoint_every_steps > 0 && record.step % options_.checkpoint_every_steps == 0;
  if (due || LastStepTaken()) Checkpoint();
  store_.Submit(std::move(record), next_tag_++);
  reserve_tag_ = next_tag_++;
  store_.Submit(ReserveVersion{version_step_ + 1}, reserve_tag_);
}

// Before anybody can have the weights: replay takes no trajectory of a version it has not heard of.
void LearnerLoop::TellVersion() {
  v1::VersionPublished published;
  published.set_version(counters_.version);
  published.set_step(version_step_);
  std::string body = published.SerializeAsString();
  if (!bus_.Publish(kVersionsTopic, body).ok()) outbox_.Publish(kVersionsTopic, std::move(body));
}

void LearnerLoop::Checkpoint() {
  if (options_.checkpoint_folder.empty() || checkpointed_step_ >= version_step_) return;
  ++checkpointing_;
  checkpointed_step_ = version_step_;
  CheckpointRequest request;
  request.step = version_step_;
  request.version = counters_.version;
  request.path = fmt::format("{}/step-{:08}", options_.checkpoint_folder, version_step_);
  trainer_.Checkpoint(std::move(request));
}

void LearnerLoop::OnPublished(const PublishDone& done) {
  TM_CHECK(!publishing_.empty() && publishing_.front().first == done.version,
           "the trainer published a version it was not asked for");
  const uint64_t step = publishing_.front().second;
  publishing_.pop_front();
  if (!done.status.ok()) throw std::runtime_error("publishing: " + done.status.ToString());
  journal_.Record("publish",
                  {{"version", static_cast<double>(done.version)},
                   {"step", static_cast<double>(step)},
                   {"seconds", done.seconds}},
                  {});
  Tell(options_.listeners, VersionMade{done.version, step});
  Observe("tidemill_publish_seconds", "Time to publish a version of the weights", done.seconds);
  v1::DispatchEvent event;
  event.mutable_step()->set_step(step);
  event.mutable_step()->set_version(done.version);
  outbox_.Publish(kDispatchTopic, event.SerializeAsString());
}

void LearnerLoop::Observe(const char* name, const char* help, double seconds) {
  if (options_.metrics != nullptr) options_.metrics->Histogram(name, help).Observe(seconds);
}

void LearnerLoop::OnCheckpoint(const CheckpointDone& done) {
  TM_CHECK(checkpointing_ > 0, "the trainer wrote a checkpoint it was not asked for");
  --checkpointing_;
  if (!done.status.ok()) {
    // Training goes on: the next checkpoint may succeed, and the last good one is still there.
    journal_.Record("warning", {{"step", static_cast<double>(done.step)}},
                    {{"what", "checkpoint failed: " + done.status.ToString()}});
    return;
  }
  ++counters_.checkpoints;
  Observe("tidemill_checkpoint_seconds", "Time to write a checkpoint", done.seconds);
  store_.Submit(PutCheckpoint{done.step, done.version, done.path}, next_tag_++);
  journal_.Record("checkpoint",
                  {{"step", static_cast<double>(done.step)},
                   {"seconds", done.seconds},
                   {"pause_seconds", done.pause_seconds},
                   {"copy_seconds", done.copy_seconds},
                   {"write_seconds", done.write_seconds}},
                  {{"path", done.path}});
}

void LearnerLoop::TakeWishes() {
  if (options_.release == nullptr) return;
  for (const ReleaseWish& wish : options_.release->wishes().TakeAll()) {
    released_step_ = wish.step;
    trainer_.NeedOnly(wish.keep);
    if (wish.set_back) set_back_to_ = *wish.set_back;
  }
}

// Between two steps, with a number of its own: what is drawn from it counts as of the last step.
void LearnerLoop::BeginSetBack() {
  if (set_back_to_ == 0 || setting_back_ != 0 || training_ || !to_publish_.empty()) return;
  setting_back_ = std::exchange(set_back_to_, 0);
  set_back_tag_ = next_tag_++;
  store_.Submit(ReserveVersion{version_step_}, set_back_tag_);
}

void LearnerLoop::OnSetBack(const SetBackDone& done) {
  setting_back_ = 0;
  Tell(options_.listeners, LearnerSetBack{done.status, done.version, done.step});
  const Numbers numbers = {{"to", static_cast<double>(done.to)},
                           {"version", static_cast<double>(done.version)},
                           {"step", static_cast<double>(done.step)}};
  if (done.status.ok()) {
    journal_.Record("set_back", numbers, {});
    return;
  }
  journal_.Record("set_back_failed", numbers, {{"why", done.status.message()}});
  journal_.Record("warning", numbers,
                  {{"what", "the learner could not be set back to the released version: " +
                                done.status.message()}});
}

void LearnerLoop::TakeStored() {
  for (StoreDone& done : store_.events().TakeAll()) {
    if (!done.status.ok())
      throw std::runtime_error("the run's database: " + done.status.ToString());
    if (done.tag == set_back_tag_) {
      counters_.version = done.version;
      TellVersion();
      trainer_.SetBack({setting_back_, done.version, version_step_});
      // The number that was reserved for the next step is below this one.
      reserved_.reset();
      reserve_tag_ = next_tag_++;
      store_.Submit(ReserveVersion{version_step_ + 1}, reserve_tag_);
      continue;
    }
    if (done.tag != reserve_tag_) continue;
    reserved_ = done.version;
    PublishIfReserved();
  }
}

// When the last step is out: a checkpoint of it, then word to the dispatcher, then done.
void LearnerLoop::FinishIfLast() {
  if (!LastStepTaken() || training_ || !to_publish_.empty() || !publishing_.empty() || last_told_)
    return;
  Checkpoint();  // where none was due
  if (checkpointing_ > 0) return;
  v1::DispatchEvent event;
  event.mutable_step()->set_step(counters_.steps);
  event.mutable_step()->set_version(counters_.version);
  event.mutable_step()->set_last(true);
  outbox_.Publish(kDispatchTopic, event.SerializeAsString());
  last_told_ = true;
  counters_.done = true;
}

}  // namespace tidemill
