// The state of one client of a bus that lives on a broker, known without asking it: the topics as
// last heard of, the calls not yet sent, what was fetched ahead, the leases handed out. No I/O, no
// lock of its own: both sides of a BrokerBus, its callers and its I/O thread, use it under one
// lock.
//
//   callers --> calls (outbox) --> I/O thread --> broker
//   callers <-- fetched        <-- I/O thread <-- broker
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "core/clock.h"

namespace tidemill {

// One call on its way to the broker. The letters are those of the batch script of Redis; 'e' ends a
// lease that ran out, where the broker has no leases.
struct BusCall {
  char letter = 0;
  std::string topic = {};
  uint64_t generation = 0;  // of the topic here, when the call was made; 0: not known here
  uint64_t inbox_generation = 0;
  std::string a = {};  // inbox, entry or options
  std::string b = {};  // delay, reason or count
  std::string body = {};
  std::string body_ref = {};  // where the body is kept if not in the stream
  int size_change = 0;        // what it will do to the topic's size
  int owed_change = 0;        // and to what the inbox is owed
  bool force = false;         // above capacity if need be
  Time renewed{};             // when the lease it ends was last made to last

  bool publishes() const { return letter == 'p' || letter == 'q' || letter == 'r'; }
  bool ends_lease() const {
    return letter == 'a' || letter == 'b' || letter == 'u' || letter == 'x' || letter == 'e';
  }
};

struct FetchedMessage {
  std::string entry;  // names this delivery to the broker
  std::string id;     // of the message
  uint32_t deliveries = 1;
  std::string body;
  std::string body_ref;
  Time fetched{};
  Time renewed{};
};

struct ViewedTopic {
  std::string name;
  TopicOptions options;
  uint64_t generation = 0;
  bool open = false;   // it exists, as far as we know
  bool ours = false;   // opened by this client: made again if the server lost its data
  size_t opening = 0;  // calls that open or remove it, not yet done: nothing is fetched meanwhile

  // As last heard from the server.
  bool heard = false;
  int64_t size = 0;  // ready, leased and delayed
  int64_t owed = 0;
  TopicDepth depth;  // at the last tick
  int64_t made = 0;  // when its stream was made, by the server; 0: not heard yet
  // The changes by calls on their way.
  int64_t size_change = 0;
  int64_t owed_change = 0;

  size_t listeners = 0;
  size_t demand = 0;  // wanted by the last Receive and not yet given
  std::deque<FetchedMessage> fetched;
  size_t asked = 0;        // asked for and not yet answered
  size_t loading = 0;      // fetched, their bodies not yet
  bool hungry = false;     // there was less than asked for: wait for more
  bool received = false;   // this client is a consumer there
  bool suspended = false;  // reading failed; wait for the next tick

  bool tick_now = false;
  bool tick_sent = false;
  Time next_tick{};
  Time next_forget{};
  std::string cursor = "0-0";

  int64_t Taken() const { return size + size_change + owed + owed_change; }
  bool HasRoom(int64_t count = 1) const {
    return Taken() + count <= static_cast<int64_t>(options.capacity);
  }
  size_t Wanted() const {
    const size_t have = fetched.size() + asked + loading;
    return demand > have ? demand - have : 0;
  }
};

// A topic as the server lists it.
struct ListedTopic {
  std::string name;
  TopicOptions options;
};

// Options as the server keeps them: capacity, lease in ms, deliveries.
std::string TopicOptionsText(const TopicOptions& options);

// A larger message is refused when it is published, and removed where the server runs out of
// memory: nobody who keeps to the protocol wrote it.
inline constexpr size_t kBodyMax = size_t{128} << 20;

struct ClientViewOptions {
  size_t calls_max = 1 << 16;   // not yet sent
  size_t bytes_max = 64 << 20;  // of their bodies
  // The broker has no leases that run out: what runs out here is given back by a call of ours.
  bool keeps_leases = false;
};

class ClientView {
 public:
  ClientView(const ClientViewOptions& options, const Clock& clock)
      : options_(options), clock_(clock) {}

  // The calls of Bus, as far as they can be answered here.
  Status Open(std::string_view topic, const TopicOptions& options);
  Status Publish(std::string_view topic, std::string body);
  Status PublishRequest(std::string_view topic, std::string_view inbox, std::string body);
  Status PublishReply(std::string_view inbox, std::string body);
  Status Forgive(std::string_view inbox, size_t count);
  Result<std::vector<Lease>> Receive(std::string_view topic, size_t max);
  Status Ack(const Lease& lease);
  Status Extend(const Lease& lease);
  Status Release(const Lease& lease, Duration delay);
  Status Reject(const Lease& lease, std::string_view reason);
  Result<TopicDepth> Depth(std::string_view topic);
  Status Remove(std::string_view topic);
  // Everything held or fetched goes back; the outbox stays.
  void GiveAllBack();
  // The broker took back all it had delivered.
  void LoseDeliveries();

  // For the I/O thread.
  // null: not known here.
  ViewedTopic* Find(std::string_view topic);
  ViewedTopic& FindOrAdd(std::string_view topic);
  std::map<std::string, ViewedTopic, std::less<>>& topics() { return topics_; }
  // Calls to send next, up to the bounds; they count as under way until Done or PutBack.
  std::vector<BusCall> TakeCalls(size_t count_max, size_t bytes_max);
  void Done(const BusCall& call);
  void PutBack(std::vector<BusCall> calls);  // to the front, in their order
  // Makes every topic of ours again, before anything else: the server lost its data.
  void OpenAgain();
  void OpenDeadLetters(const TopicOptions& options);
  bool Idle() const { return calls_.empty() && under_way_ == 0 && extends_.empty(); }
  size_t waiting() const { return calls_.size(); }
  template <typename Predicate>
  bool AnyWaiting(Predicate predicate) const {
    return std::any_of(calls_.begin(), calls_.end(), predicate);
  }

  // Lets the inbox be refused for a while without asking.
  void InboxGone(std::string_view inbox);
  // The server's list of topics: those that other clients opened are known from now on, or no
  // longer.
  void HeardAll(const std::vector<ListedTopic>& listed);
  // Somebody removed it: what is held or fetched there is void.
  void Gone(ViewedTopic& topic);
  // The server says it was lost: the lease is no longer ours.
  void Lost(uint64_t token);
  // Gives back what was fetched and not received for `linger`; renews the leases of what waits
  // here.
  void TendLeases(Duration linger);
  void RenewEnding(BusCall& call, Time now);
  // Entries of a topic that are known here: held, fetched, or about to be ended by a call.
  std::set<std::string> Entries(std::string_view topic);
  // A delivery whose body cannot be had: dead if it is `gone`, to be tried again later if not.
  void EndUnread(ViewedTopic& topic, std::string entry, std::string_view reason, bool gone);
  // Undoes a delivery nobody received.
  void GiveBack(ViewedTopic& topic, std::string entry);

  struct Renewal {
    std::string entry;
    uint64_t token = 0;  // 0: not handed out
  };
  std::map<std::string, std::vector<Renewal>, std::less<>>& extends() { return extends_; }

  uint64_t given_back() const { return given_back_; }

 private:
  struct Held {
    std::string topic;
    uint64_t generation = 0;
    FetchedMessage message;  // its body was given away
    Time deadline{};
  };

  // Takes the lease out of the table. kNotFound: it ran out.
  Result<Held> TakeHeld(const Lease& lease);
  Status CheckHeld(const Lease& lease);
  bool OutboxFull() const;
  void Push(ViewedTopic& topic, BusCall call);
  void EndLease(const Held& held, BusCall call);
  void RanOut(const Held& held);
  void Renew(const std::string& topic, Renewal renewal);

  const ClientViewOptions options_;
  const Clock& clock_;
  std::map<std::string, ViewedTopic, std::less<>> topics_;
  std::map<std::string, Time, std::less<>> gone_;  // inboxes known to be gone, until when
  std::deque<BusCall> calls_;
  size_t bytes_ = 0;
  size_t under_way_ = 0;
  std::unordered_map<uint64_t, Held> held_;
  std::map<std::string, std::vector<Renewal>, std::less<>> extends_;
  uint64_t next_token_ = 1;
  uint64_t next_generation_ = 1;
  uint64_t given_back_ = 0;
};

}  // namespace tidemill
