#include "bus/rabbit/rabbit_connection.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <charconv>

namespace tidemill {
namespace {

constexpr const char* kSystemCas = "/etc/ssl/certs/ca-certificates.crt";
constexpr int kChannels = 8;
constexpr int kFrameBytes = 131072;
constexpr int kNotFoundCode = 404;
constexpr uint64_t kReserveMax = 1 << 20;  // before the bytes have come

amqp_bytes_t Bytes(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};  // NOLINT: it is only read
}

std::string Text(amqp_bytes_t bytes) {
  return bytes.len == 0 ? std::string() : std::string(static_cast<char*>(bytes.bytes), bytes.len);
}

timeval TimeOf(Duration d) {
  const auto us =
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::microseconds>(d).count());
  return {.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
}

// The entries of a table that is sent; the names and texts must outlive it.
class Table {
 public:
  void Add(std::string_view name, const RabbitValue& value) {
    amqp_table_entry_t entry{};
    entry.key = Bytes(name);
    if (const auto* number = std::get_if<int64_t>(&value)) {
      entry.value.kind = AMQP_FIELD_KIND_I64;
      entry.value.value.i64 = *number;
    } else {
      entry.value.kind = AMQP_FIELD_KIND_UTF8;
      entry.value.value.bytes = Bytes(std::get<std::string>(value));
    }
    entries_.push_back(entry);
  }
  void Add(std::string_view name, const std::string& text) {
    amqp_table_entry_t entry{};
    entry.key = Bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = Bytes(text);
    entries_.push_back(entry);
  }
  amqp_table_t Get() { return {static_cast<int>(entries_.size()), entries_.data()}; }

 private:
  std::vector<amqp_table_entry_t> entries_;
};

Status Lost(int code) {
  return Unavailable("rabbitmq: " + std::string(amqp_error_string2(code)));
}

void TakeProperties(const amqp_basic_properties_t& from, RabbitMessage& to) {
  if ((from._flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0) to.id = Text(from.message_id);
  if ((from._flags & AMQP_BASIC_HEADERS_FLAG) == 0) return;
  for (int i = 0; i < from.headers.num_entries; ++i) {
    const amqp_table_entry_t& entry = from.headers.entries[i];
    if (entry.value.kind != AMQP_FIELD_KIND_UTF8) continue;
    to.headers.emplace_back(Text(entry.key), Text(entry.value.value.bytes));
  }
}

// What a method says that a message's content follows.
RabbitEvent MessageEventOf(const amqp_method_t& method) {
  using Kind = RabbitEvent::Kind;
  RabbitEvent event;
  switch (method.id) {
    case AMQP_BASIC_DELIVER_METHOD: {
      const auto* m = static_cast<amqp_basic_deliver_t*>(method.decoded);
      event.kind = Kind::kDelivered;
      event.tag = m->delivery_tag;
      event.redelivered = m->redelivered != 0;
      event.consumer = Text(m->consumer_tag);
      event.message.exchange = Text(m->exchange);
      event.message.key = Text(m->routing_key);
      break;
    }
    case AMQP_BASIC_GET_OK_METHOD: {
      const auto* m = static_cast<amqp_basic_get_ok_t*>(method.decoded);
      event.kind = Kind::kGot;
      event.tag = m->delivery_tag;
      event.redelivered = m->redelivered != 0;
      event.messages = m->message_count;
      event.message.exchange = Text(m->exchange);
      event.message.key = Text(m->routing_key);
      break;
    }
    case AMQP_BASIC_RETURN_METHOD: {
      const auto* m = static_cast<amqp_basic_return_t*>(method.decoded);
      event.kind = Kind::kReturned;
      event.message.exchange = Text(m->exchange);
      event.message.key = Text(m->routing_key);
      break;
    }
    default:
      break;
  }
  return event;
}

RabbitEvent EventOf(const amqp_method_t& method) {
  using Kind = RabbitEvent::Kind;
  RabbitEvent event;
  switch (method.id) {
    case AMQP_BASIC_ACK_METHOD: {
      const auto* m = static_cast<amqp_basic_ack_t*>(method.decoded);
      event.kind = Kind::kConfirmed;
      event.tag = m->delivery_tag;
      event.multiple = m->multiple != 0;
      break;
    }
    case AMQP_BASIC_NACK_METHOD: {
      const auto* m = static_cast<amqp_basic_nack_t*>(method.decoded);
      event.kind = Kind::kRefused;
      event.tag = m->delivery_tag;
      event.multiple = m->multiple != 0;
      break;
    }
    case AMQP_QUEUE_DECLARE_OK_METHOD: {
      const auto* m = static_cast<amqp_queue_declare_ok_t*>(method.decoded);
      event.kind = Kind::kDeclared;
      event.messages = m->message_count;
      event.consumers = m->consumer_count;
      break;
    }
    case AMQP_BASIC_GET_EMPTY_METHOD:
      event.kind = Kind::kGotNothing;
      break;
    case AMQP_BASIC_CANCEL_METHOD:
      event.kind = Kind::kCancelled;
      event.consumer = Text(static_cast<amqp_basic_cancel_t*>(method.decoded)->consumer_tag);
      break;
    case AMQP_CHANNEL_CLOSE_METHOD: {
      const auto* m = static_cast<amqp_channel_close_t*>(method.decoded);
      event.kind = Kind::kChannelClosed;
      event.code = m->reply_code;
      event.text = Text(m->reply_text);
      break;
    }
    default:
      return MessageEventOf(method);
  }
  return event;
}

bool HasContent(const RabbitEvent& event) {
  return event.kind == RabbitEvent::Kind::kDelivered || event.kind == RabbitEvent::Kind::kGot ||
         event.kind == RabbitEvent::Kind::kReturned;
}

Status LoginStatus(const amqp_rpc_reply_t& reply, const std::string& where) {
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) return Ok();
  if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
    return Lost(reply.library_error).WithContext(where);
  }
  std::string text = "the broker refused the connection";
  if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
    text = Text(static_cast<amqp_connection_close_t*>(reply.reply.decoded)->reply_text);
  }
  return Invalid("rabbitmq at " + where + ": " + text);
}

}  // namespace

std::string_view RabbitMessage::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

struct RabbitConnection::State {
  ~State() {
    // In order, so that what was sent last is done.
    if (!broken) amqp_connection_close(state, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(state);
  }
  amqp_connection_state_t state = nullptr;
  bool broken = true;  // or not yet connected
  struct Partial {
    RabbitEvent event;
    uint64_t bytes_left = 0;
  };
  std::map<uint16_t, Partial> partial;  // a message whose content is on its way, by channel
};

RabbitConnection::RabbitConnection(std::unique_ptr<State> state) : state_(std::move(state)) {}

RabbitConnection::~RabbitConnection() = default;

namespace {

// The server's certificate must be of the host or address of the URL.
Status CheckName(amqp_socket_t* socket, const std::string& host) {
  auto* context = static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket));
  X509_VERIFY_PARAM* wanted = SSL_CTX_get0_param(context);
  in6_addr address{};
  const bool is_address = inet_pton(AF_INET, host.c_str(), &address) == 1 ||
                          inet_pton(AF_INET6, host.c_str(), &address) == 1;
  const int set = is_address ? X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str())
                             : X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size());
  return set == 1 ? Ok() : Invalid("rabbitmq: no certificate can be for the host " + host);
}

Result<amqp_socket_t*> MakeSocket(amqp_connection_state_t state, const RabbitAddress& address) {
  if (!address.tls) return amqp_tcp_socket_new(state);
  amqp_socket_t* socket = amqp_ssl_socket_new(state);
  if (socket == nullptr) return Unavailable("rabbitmq: TLS cannot be set up");
  const std::string ca = address.ca.empty() ? kSystemCas : address.ca;
  if (amqp_ssl_socket_set_cacert(socket, ca.c_str()) != AMQP_STATUS_OK) {
    return Invalid("rabbitmq: " + ca + " cannot be used: it must be a file of CA certificates");
  }
  if (!address.cert.empty() && amqp_ssl_socket_set_key(socket, address.cert.c_str(),
                                                       address.key.c_str()) != AMQP_STATUS_OK) {
    return Invalid("rabbitmq: " + address.cert + " and " + address.key +
                   " cannot be used: they must be a certificate and its key");
  }
  amqp_ssl_socket_set_verify_peer(socket, 1);
  amqp_ssl_socket_set_verify_hostname(socket, 0);  // knows no addresses; CheckName does
  amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
  TM_RETURN_IF_ERROR(CheckName(socket, address.host));
  return socket;
}

}  // namespace

Result<std::unique_ptr<RabbitConnection>> RabbitConnection::Connect(const RabbitAddress& address,
                                                                    Duration timeout,
                                                                    int heartbeat_s) {
  auto state = std::make_unique<State>();
  state->state = amqp_new_connection();
  TM_ASSIGN_OR_RETURN(amqp_socket_t* const socket, MakeSocket(state->state, address));
  const std::string where = address.Name();
  const timeval limit = TimeOf(timeout);
  amqp_set_handshake_timeout(state->state, &limit);
  amqp_set_rpc_timeout(state->state, &limit);
  const int opened = amqp_socket_open_noblock(socket, address.host.c_str(), address.port, &limit);
  if (opened == AMQP_STATUS_SSL_PEER_VERIFY_FAILED ||
      opened == AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED ||
      opened == AMQP_STATUS_SSL_CONNECTION_FAILED) {
    return Invalid("rabbitmq at " + where + ": " + amqp_error_string2(opened) +
                   "; the certificate must name the host and be signed by a known CA");
  }
  if (opened != AMQP_STATUS_OK) return Lost(opened).WithContext(where);
  const amqp_rpc_reply_t login =
      amqp_login(state->state, address.vhost.c_str(), kChannels, kFrameBytes, heartbeat_s,
                 AMQP_SASL_METHOD_PLAIN, address.user.c_str(), address.password.c_str());
  TM_RETURN_IF_ERROR(LoginStatus(login, where));
  state->broken = false;
  return std::unique_ptr<RabbitConnection>(new RabbitConnection(std::move(state)));
}

int RabbitConnection::fd() const {
  return amqp_get_sockfd(state_->state);
}

Status RabbitConnection::Send(uint16_t channel, uint32_t method, void* decoded) {
  return Sent(amqp_send_method(state_->state, channel, method, decoded));
}

Status RabbitConnection::OpenChannel(uint16_t channel) {
  amqp_channel_open_t m{};
  return Send(channel, AMQP_CHANNEL_OPEN_METHOD, &m);
}

Status RabbitConnection::ConfirmPublishes(uint16_t channel) {
  amqp_confirm_select_t m{};
  return Send(channel, AMQP_CONFIRM_SELECT_METHOD, &m);
}

Status RabbitConnection::DeclareFanout(uint16_t channel, const std::string& exchange) {
  amqp_exchange_declare_t m{};
  m.exchange = Bytes(exchange);
  m.type = Bytes("fanout");
  m.durable = 1;
  return Send(channel, AMQP_EXCHANGE_DECLARE_METHOD, &m);
}

Status RabbitConnection::DeleteExchange(uint16_t channel, const std::string& exchange) {
  amqp_exchange_delete_t m{};
  m.exchange = Bytes(exchange);
  return Send(channel, AMQP_EXCHANGE_DELETE_METHOD, &m);
}

Status RabbitConnection::Declare(uint16_t channel, const RabbitQueue& queue) {
  Table table;
  for (const auto& [name, value] : queue.arguments) table.Add(name, value);
  amqp_queue_declare_t m{};
  m.queue = Bytes(queue.name);
  m.passive = queue.passive ? 1 : 0;
  m.durable = queue.durable ? 1 : 0;
  m.exclusive = queue.exclusive ? 1 : 0;
  m.arguments = table.Get();
  return Send(channel, AMQP_QUEUE_DECLARE_METHOD, &m);
}

Status RabbitConnection::Bind(uint16_t channel, const std::string& queue,
                              const std::string& exchange) {
  amqp_queue_bind_t m{};
  m.queue = Bytes(queue);
  m.exchange = Bytes(exchange);
  return Send(channel, AMQP_QUEUE_BIND_METHOD, &m);
}

Status RabbitConnection::Delete(uint16_t channel, const std::string& queue) {
  amqp_queue_delete_t m{};
  m.queue = Bytes(queue);
  return Send(channel, AMQP_QUEUE_DELETE_METHOD, &m);
}

Status RabbitConnection::Prefetch(uint16_t channel, uint16_t count) {
  amqp_basic_qos_t m{};
  m.prefetch_count = count;
  return Send(channel, AMQP_BASIC_QOS_METHOD, &m);
}

Status RabbitConnection::Consume(uint16_t channel, const Consumer& consumer) {
  Table table;
  for (const auto& [name, value] : consumer.arguments) table.Add(name, value);
  amqp_basic_consume_t m{};
  m.queue = Bytes(consumer.queue);
  m.consumer_tag = Bytes(consumer.name);
  m.no_ack = consumer.acknowledges ? 0 : 1;
  m.nowait = 1;
  m.arguments = table.Get();
  return Send(channel, AMQP_BASIC_CONSUME_METHOD, &m);
}

Status RabbitConnection::Cancel(uint16_t channel, const std::string& consumer) {
  amqp_basic_cancel_t m{};
  m.consumer_tag = Bytes(consumer);
  m.nowait = 1;
  return Send(channel, AMQP_BASIC_CANCEL_METHOD, &m);
}

Status RabbitConnection::Ack(uint16_t channel, uint64_t tag) {
  return Sent(amqp_basic_ack(state_->state, channel, tag, 0));
}

Status RabbitConnection::Get(uint16_t channel, const std::string& queue) {
  amqp_basic_get_t m{};
  m.queue = Bytes(queue);
  return Send(channel, AMQP_BASIC_GET_METHOD, &m);
}

Status RabbitConnection::Publish(uint16_t channel, const RabbitMessage& message) {
  Table table;
  for (const auto& [name, value] : message.headers) table.Add(name, value);
  amqp_basic_properties_t properties{};
  properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
  properties.delivery_mode =
      message.persistent ? AMQP_DELIVERY_PERSISTENT : AMQP_DELIVERY_NONPERSISTENT;
  if (!message.id.empty()) {
    properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
    properties.message_id = Bytes(message.id);
  }
  if (!message.headers.empty()) {
    properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    properties.headers = table.Get();
  }
  std::string expires;
  if (message.expires_after > Duration::zero()) {
    expires = std::to_string(std::chrono::ceil<milliseconds>(message.expires_after).count());
    properties._flags |= AMQP_BASIC_EXPIRATION_FLAG;
    properties.expiration = Bytes(expires);
  }
  const int sent =
      amqp_basic_publish(state_->state, channel, Bytes(message.exchange), Bytes(message.key),
                         message.mandatory ? 1 : 0, 0, &properties, Bytes(message.body));
  return Sent(sent);
}

Status RabbitConnection::Sent(int code) {
  if (code == AMQP_STATUS_OK) return Ok();
  state_->broken = true;
  return Lost(code);
}

Result<std::optional<RabbitEvent>> RabbitConnection::Next(Duration patience) {
  if (!passed_over_.empty()) {
    std::optional<RabbitEvent> event = std::move(passed_over_.front());
    passed_over_.pop_front();
    return event;
  }
  return ReadFrame(patience);
}

Result<RabbitEvent> RabbitConnection::Answer(uint16_t channel, Duration patience) {
  const RealClock clock;
  const Time until = clock.Now() + patience;
  while (clock.Now() < until) {
    TM_ASSIGN_OR_RETURN(std::optional<RabbitEvent> event, ReadFrame(until - clock.Now()));
    if (!event) continue;
    using Kind = RabbitEvent::Kind;
    if (event->channel == channel) {
      if (event->kind == Kind::kChannelClosed) {
        const Status refused = Invalid("rabbitmq: " + event->text);
        return event->code == kNotFoundCode ? NotFound("rabbitmq: " + event->text) : refused;
      }
      if (event->kind == Kind::kDone || event->kind == Kind::kDeclared ||
          event->kind == Kind::kGot || event->kind == Kind::kGotNothing) {
        return std::move(*event);
      }
    }
    passed_over_.push_back(std::move(*event));
  }
  return Unavailable("rabbitmq: no answer");
}

// One frame may complete an event or not: none is no proof that nothing more waits, so this reads
// on until there is an event or nothing to read.
Result<std::optional<RabbitEvent>> RabbitConnection::ReadFrame(Duration patience) {
  while (true) {
    amqp_frame_t frame;
    const timeval wait = TimeOf(patience);
    const int read = amqp_simple_wait_frame_noblock(state_->state, &frame, &wait);
    if (read == AMQP_STATUS_TIMEOUT) return std::optional<RabbitEvent>();
    if (read != AMQP_STATUS_OK) return Sent(read);
    if (frame.frame_type == AMQP_FRAME_METHOD) {
      if (frame.payload.method.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const auto* m = static_cast<amqp_connection_close_t*>(frame.payload.method.decoded);
        state_->broken = true;
        return Unavailable("rabbitmq closed the connection: " + Text(m->reply_text));
      }
      RabbitEvent event = EventOf(frame.payload.method);
      event.channel = frame.channel;
      if (event.kind == RabbitEvent::Kind::kChannelClosed) {
        state_->partial.erase(frame.channel);
        amqp_channel_close_ok_t ok{};
        TM_RETURN_IF_ERROR(Send(frame.channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok));
      }
      if (!HasContent(event)) {
        amqp_maybe_release_buffers_on_channel(state_->state, frame.channel);
        return std::optional<RabbitEvent>(std::move(event));
      }
      state_->partial[frame.channel] = {.event = std::move(event)};
      continue;
    }
    const auto found = state_->partial.find(frame.channel);
    if (found == state_->partial.end()) continue;
    State::Partial& partial = found->second;
    std::string& body = partial.event.message.body;
    if (frame.frame_type == AMQP_FRAME_HEADER) {
      partial.bytes_left = frame.payload.properties.body_size;
      body.reserve(std::min<uint64_t>(partial.bytes_left, kReserveMax));
      TakeProperties(*static_cast<amqp_basic_properties_t*>(frame.payload.properties.decoded),
                     partial.event.message);
    } else if (frame.frame_type == AMQP_FRAME_BODY) {
      const amqp_bytes_t bytes = frame.payload.body_fragment;
      body.append(static_cast<char*>(bytes.bytes), bytes.len);
      partial.bytes_left -= std::min<uint64_t>(partial.bytes_left, bytes.len);
    }
    if (partial.bytes_left > 0) continue;
    std::optional<RabbitEvent> event = std::move(partial.event);
    state_->partial.erase(found);
    amqp_maybe_release_buffers_on_channel(state_->state, frame.channel);
    return event;
  }
}

}  // namespace tidemill
