#include "bus/rabbit/rabbit_inspector.h"

#include <set>
#include <utility>

#include "bus/rabbit/rabbit_figures.h"
#include "bus/rabbit/rabbit_member.h"
#include "bus/rabbit/rabbit_roster.h"
#include "core/message_check.h"

namespace tidemill {
namespace {

constexpr Duration kHeldPatience = std::chrono::seconds(2);

Status NoLetter(std::string_view id) {
  return NotFound("no dead letter " + std::string(id));
}

std::optional<DeadLetterEntry> LetterOf(const RabbitMessage& message) {
  v1::DeadLetter letter;
  if (!ReadMessage(message.body, letter).ok()) return std::nullopt;
  return DeadLetterEntry{.id = message.id,
                         .topic = letter.topic(),
                         .reason = letter.reason(),
                         .deliveries = letter.deliveries(),
                         .died_ms = letter.died_ms(),
                         .body = letter.body(),
                         .body_ref = ""};
}

}  // namespace

Result<RabbitInspector> RabbitInspector::Connect(std::string_view url, Duration timeout) {
  TM_ASSIGN_OR_RETURN(const RabbitAddress address, ParseRabbitUrl(url));
  // The run comes later; whether the broker answers is known now.
  TM_RETURN_IF_ERROR(RabbitConnection::Connect(address, timeout, 0).status());
  return RabbitInspector(std::string(url), timeout);
}

Result<RabbitClient*> RabbitInspector::Of(std::string_view run) {
  if (!client_ || run_ != run) {
    TM_ASSIGN_OR_RETURN(RabbitClient client, RabbitClient::Connect(url_, run, timeout_));
    client_.emplace(std::move(client));
    run_ = run;
  }
  return &*client_;
}

Result<std::vector<std::string>> RabbitInspector::Runs() {
  return Invalid("RabbitMQ does not tell which runs it has; name one (--run or TIDEMILL_RUN)");
}

Status RabbitInspector::CheckRun(std::string_view run) {
  TM_ASSIGN_OR_RETURN(RabbitClient * client, Of(run));
  const Status there = client->OnChannel([&](RabbitClient::Channel& channel) {
    return channel
        .Ask([&](RabbitConnection& connection, uint16_t number) {
          return connection.Declare(number,
                                    {.name = client->names().Topic(kDeadTopic), .passive = true});
        })
        .status();
  });
  if (there.code() != Code::kNotFound) return there;
  return NotFound("no run " + std::string(run) + " on rabbitmq at " + client->address().Name());
}

Result<std::vector<TopicState>> RabbitInspector::Topics(std::string_view run) {
  TM_ASSIGN_OR_RETURN(RabbitClient * client, Of(run));
  TM_ASSIGN_OR_RETURN(const RabbitBook* book, client->Book());
  const Time now = RabbitClient::Now();
  std::vector<TopicState> topics;
  for (ListedTopic& listed : ListedTopics(*book, now)) {
    TopicState state;
    state.name = std::move(listed.name);
    state.options = listed.options;
    state.died = DiedOf(*book, state.name, now);
    book->ForEach(kFiguresNote, now, [&](std::string_view, const RabbitNote& note) {
      const RabbitFigures figures = ReadFigures(note.value);
      const auto found = figures.find(state.name);
      if (found == figures.end()) return;
      state.leased += found->second.leased;
      state.delayed += found->second.parked;
      state.owed += found->second.owed;
    });
    topics.push_back(std::move(state));
  }
  TM_RETURN_IF_ERROR(client->OnChannel([&](RabbitClient::Channel& channel) -> Status {
    for (TopicState& topic : topics) {
      const Result<RabbitEvent> queue =
          channel.Ask([&](RabbitConnection& connection, uint16_t number) {
            return connection.Declare(number,
                                      {.name = client->names().Topic(topic.name), .passive = true});
          });
      if (queue.ok()) {
        topic.ready = queue->messages;
        continue;
      }
      // A queue that is gone closes the channel.
      if (queue.status().code() != Code::kNotFound) return queue.status();
      const auto reopened = channel.Ask([](RabbitConnection& connection, uint16_t number) {
        return connection.OpenChannel(number);
      });
      if (!reopened.ok()) return reopened.status();
    }
    return Ok();
  }));
  return topics;
}

Result<std::vector<RosterEntry>> RabbitInspector::Workers(std::string_view run) {
  TM_ASSIGN_OR_RETURN(RabbitClient * client, Of(run));
  TM_ASSIGN_OR_RETURN(const RabbitBook* book, client->Book());
  return ReadRoster(*book, RabbitClient::Now());
}

Result<RosterTotals> RabbitInspector::Totals(std::string_view run) {
  TM_ASSIGN_OR_RETURN(RabbitClient * client, Of(run));
  TM_ASSIGN_OR_RETURN(const RabbitBook* book, client->Book());
  return ReadTotals(*book, RabbitClient::Now());
}

Status RabbitInspector::Look(RabbitClient& client, const std::string& queue,
                             const std::function<bool(RabbitEvent&)>& visit) {
  const auto each = [&](RabbitClient::Channel& channel) -> Status {
    TM_ASSIGN_OR_RETURN(const RabbitEvent there,
                        channel.Ask([&](RabbitConnection& connection, uint16_t number) {
                          return connection.Declare(number, {.name = queue, .passive = true});
                        }));
    for (uint32_t i = 0; i < there.messages; ++i) {
      TM_ASSIGN_OR_RETURN(RabbitEvent got,
                          channel.Ask([&](RabbitConnection& connection, uint16_t number) {
                            return connection.Get(number, queue);
                          }));
      if (got.kind != RabbitEvent::Kind::kGot) break;
      if (!visit(got)) continue;
      TM_RETURN_IF_ERROR(channel.Send([&](RabbitConnection& connection, uint16_t number) {
        return connection.Ack(number, got.tag);
      }));
    }
    return Ok();
  };
  const Status looked = client.OnChannel(each);
  return looked.code() == Code::kNotFound ? Ok() : looked;
}

Status RabbitInspector::AskHeld(RabbitClient& client, std::string_view topic,
                                const std::function<void(std::string_view body)>& visit) {
  TM_ASSIGN_OR_RETURN(const RabbitBook* book, client.Book());
  std::set<std::string, std::less<>> asked;
  book->ForEach(kFiguresNote, RabbitClient::Now(),
                [&](std::string_view member, const RabbitNote&) { asked.emplace(member); });
  if (asked.empty()) return Ok();
  RabbitMessage question;
  question.headers = {{"what", std::string(kHeldQuestion)},
                      {"topic", std::string(topic)},
                      {"queue", client.answer_queue()}};
  const Status answered =
      client.AskMembers(std::move(question), kHeldPatience, [&](const RabbitMessage& answer) {
        const std::string_view what = answer.Header("what");
        if (what == kHeldBody) visit(answer.body);
        if (what == kHeldEnd) {
          const auto member = asked.find(answer.Header("member"));
          if (member != asked.end()) asked.erase(member);
        }
        return asked.empty();
      });
  // A member that was killed a moment ago holds nothing that the broker has not given back.
  return answered.code() == Code::kTimeout ? Ok() : answered;
}

Status RabbitInspector::ForEachMessage(std::string_view run, std::string_view topic,
                                       const std::function<void(std::string_view body)>& visit) {
  TM_ASSIGN_OR_RETURN(RabbitClient * client, Of(run));
  // In the order in which a message passes them: from its queue to a holder, or to a parking.
  const std::string queue = client->names().Topic(topic);
  const auto all = [&](RabbitEvent& got) {
    visit(got.message.body);
    return false;
  };
  TM_RETURN_IF_ERROR(Look(*client, queue, all));
  TM_RETURN_IF_ERROR(AskHeld(*client, topic, visit));
  TM_ASSIGN_OR_RETURN(const RabbitBook* book, client->Book());
  std::vector<std::string> parkings;
  book->ForEach(kParkingNote, RabbitClient::Now(),
                [&](std::string_view name, const RabbitNote&) { parkings.emplace_back(name); });
  for (const std::string& parking : parkings) {
    TM_RETURN_IF_ERROR(Look(*client, parking, [&](RabbitEvent& got) {
      if (got.message.key == queue) visit(got.message.body);
      return false;
    }));
  }
  return Ok();
}

Result<std::vector<DeadLetterEntry>> RabbitInspector::DeadLetters(std::string_view run,
                                                                  const DeadQuery& query) {
  TM_ASSIGN_OR_RETURN(RabbitClient * client, Of(run));
  std::vector<DeadLetterEntry> letters;
  TM_RETURN_IF_ERROR(Look(*client, client->names().Topic(kDeadTopic), [&](RabbitEvent& got) {
    std::optional<DeadLetterEntry> letter = LetterOf(got.message);
    const bool wanted = letter && (query.topic.empty() || letter->topic == query.topic);
    if (wanted && letters.size() < query.limit) letters.push_back(std::move(*letter));
    return false;
  }));
  return letters;
}

Result<DeadLetterEntry> RabbitInspector::DeadLetter(std::string_view run, std::string_view id) {
  TM_ASSIGN_OR_RETURN(RabbitClient * client, Of(run));
  std::optional<DeadLetterEntry> found;
  TM_RETURN_IF_ERROR(Look(*client, client->names().Topic(kDeadTopic), [&](RabbitEvent& got) {
    if (got.message.id == id) found = LetterOf(got.message);
    return false;
  }));
  if (!found) return NoLetter(id);
  return std::move(*found);
}

// The message is on its topic before its letter goes: a crash in between leaves both.
Status RabbitInspector::End(std::string_view run, std::string_view id, bool publish) {
  TM_ASSIGN_OR_RETURN(RabbitClient * client, Of(run));
  if (publish) {
    TM_ASSIGN_OR_RETURN(DeadLetterEntry letter, DeadLetter(run, id));
    RabbitMessage message;
    message.key = client->names().Topic(letter.topic);
    message.id = letter.id;
    message.body = std::move(letter.body);
    message.mandatory = true;
    TM_RETURN_IF_ERROR(client->OnChannel([&](RabbitClient::Channel& channel) -> Status {
      TM_RETURN_IF_ERROR(channel
                             .Ask([&](RabbitConnection& connection, uint16_t number) {
                               return connection.Declare(number,
                                                         {.name = message.key, .passive = true});
                             })
                             .status()
                             .WithContext("topic " + letter.topic));
      TM_RETURN_IF_ERROR(channel
                             .Ask([](RabbitConnection& connection, uint16_t number) {
                               return connection.ConfirmPublishes(number);
                             })
                             .status());
      TM_RETURN_IF_ERROR(channel.Send([&](RabbitConnection& connection, uint16_t number) {
        return connection.Publish(number, message);
      }));
      return channel.AwaitConfirm();
    }));
  }
  bool ended = false;
  TM_RETURN_IF_ERROR(Look(*client, client->names().Topic(kDeadTopic), [&](RabbitEvent& got) {
    const bool this_one = !ended && got.message.id == id;
    ended = ended || this_one;
    return this_one;
  }));
  return ended ? Ok() : NoLetter(id);
}

Status RabbitInspector::Retry(std::string_view run, std::string_view id) {
  return End(run, id, true);
}

Status RabbitInspector::Drop(std::string_view run, std::string_view id) {
  return End(run, id, false);
}

}  // namespace tidemill
