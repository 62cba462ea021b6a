#include "bench/bare_rabbit.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>

#include "bus/rabbit/rabbit_url.h"

namespace tidemill {
namespace {

constexpr size_t kUnconfirmedMax = 2048;
constexpr uint16_t kPrefetched = 256;

amqp_bytes_t Text(const std::string& text) {
  return {text.size(), const_cast<char*>(text.data())};  // NOLINT: it is only read
}

class BareLoop {
 public:
  BareLoop(std::string_view run, size_t payload_bytes)
      : queue_(std::string(run) + "/bare"), payload_(payload_bytes, 'x') {}
  ~BareLoop() {
    if (state_ == nullptr) return;
    amqp_queue_delete(state_, 1, Text(queue_), 0, 0);
    amqp_destroy_connection(state_);
  }
  BareLoop(const BareLoop&) = delete;

  Status Connect(const RabbitAddress& address) {
    if (address.tls) return Invalid("bare rabbitmq: measured without TLS");
    state_ = amqp_new_connection();
    amqp_socket_t* const socket = amqp_tcp_socket_new(state_);
    if (amqp_socket_open(socket, address.host.c_str(), address.port) != AMQP_STATUS_OK) {
      return Unavailable("bare rabbitmq: no connection");
    }
    amqp_login(state_, address.vhost.c_str(), 0, 131072, 0, AMQP_SASL_METHOD_PLAIN,
               address.user.c_str(), address.password.c_str());
    amqp_channel_open(state_, 1);
    amqp_confirm_select(state_, 1);
    amqp_queue_declare(state_, 1, Text(queue_), 0, 1, 0, 0, amqp_empty_table);
    amqp_basic_qos(state_, 1, 0, kPrefetched, 0);
    amqp_basic_consume(state_, 1, Text(queue_), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    return amqp_get_rpc_reply(state_).reply_type == AMQP_RESPONSE_NORMAL
               ? Ok()
               : Unavailable("bare rabbitmq: the broker refused");
  }

  // How many messages were acknowledged.
  Result<size_t> Run(Duration time) {
    const RealClock clock;
    const Time until = clock.Now() + time;
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
    properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
    while (clock.Now() < until) {
      while (published_ - confirmed_ < kUnconfirmedMax && published_ - done_ < kUnconfirmedMax) {
        if (amqp_basic_publish(state_, 1, amqp_empty_bytes, Text(queue_), 1, 0, &properties,
                               Text(payload_)) != AMQP_STATUS_OK) {
          return Unavailable("bare rabbitmq: publishing failed");
        }
        ++published_;
      }
      TM_RETURN_IF_ERROR(TakeFrames());
    }
    return done_;
  }

 private:
  // What is there; waits for the first.
  Status TakeFrames() {
    timeval wait = {.tv_sec = 0, .tv_usec = 100'000};
    for (int i = 0; i < 1000; ++i) {
      amqp_frame_t frame;
      const int read = amqp_simple_wait_frame_noblock(state_, &frame, &wait);
      if (read == AMQP_STATUS_TIMEOUT) return Ok();
      if (read != AMQP_STATUS_OK) return Unavailable("bare rabbitmq: the connection was lost");
      wait = {};
      if (frame.frame_type == AMQP_FRAME_METHOD) {
        if (frame.payload.method.id == AMQP_BASIC_ACK_METHOD) {
          confirmed_ = static_cast<amqp_basic_ack_t*>(frame.payload.method.decoded)->delivery_tag;
        } else if (frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD) {
          tag_ = static_cast<amqp_basic_deliver_t*>(frame.payload.method.decoded)->delivery_tag;
        }
        continue;
      }
      if (frame.frame_type == AMQP_FRAME_HEADER) {
        left_ = frame.payload.properties.body_size;
        body_.clear();
      } else if (frame.frame_type == AMQP_FRAME_BODY) {
        // As any reader would, take the body out of the frame.
        const amqp_bytes_t bytes = frame.payload.body_fragment;
        body_.append(static_cast<char*>(bytes.bytes), bytes.len);
        left_ -= bytes.len;
      }
      if (left_ > 0) continue;
      amqp_basic_ack(state_, 1, tag_, 0);
      ++done_;
      amqp_maybe_release_buffers_on_channel(state_, 1);
    }
    return Ok();
  }

  const std::string queue_;
  const std::string payload_;
  amqp_connection_state_t state_ = nullptr;
  std::string body_;
  uint64_t published_ = 0, confirmed_ = 0, tag_ = 0, left_ = 0;
  size_t done_ = 0;
};

}  // namespace

Result<double> MeasureBareRabbit(const std::string& url, std::string_view run, size_t payload_bytes,
                                 Duration time) {
  TM_ASSIGN_OR_RETURN(const RabbitAddress address, ParseRabbitUrl(url));
  BareLoop loop(run, payload_bytes);
  TM_RETURN_IF_ERROR(loop.Connect(address));
  const RealClock clock;
  const Time start = clock.Now();
  TM_ASSIGN_OR_RETURN(const size_t done, loop.Run(time));
  return static_cast<double>(done) / Seconds(clock.Now() - start);
}

}  // namespace tidemill
