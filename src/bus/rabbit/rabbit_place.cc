#include "bus/rabbit/rabbit_place.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bus/rabbit/rabbit_client.h"

namespace tidemill {
namespace {

constexpr std::string_view kObjectNote = "object:";
constexpr size_t kStreamPieceBytes = size_t{1} << 20;
constexpr std::string_view kInPieces = "pieces ";
constexpr std::string_view kInOne = "small ";
constexpr Duration kObjectsLast = std::chrono::hours(24);
constexpr Duration kPiecePatience = std::chrono::seconds(30);
constexpr uint16_t kPrefetch = 8;

std::optional<size_t> PiecesIn(std::string_view head) {
  if (!head.starts_with(kInPieces)) return std::nullopt;
  head.remove_prefix(kInPieces.size());
  size_t pieces = 0;
  std::from_chars(head.data(), head.data() + head.size(), pieces);
  return pieces;
}

class RabbitPlace final : public ObjectPlace {
 public:
  explicit RabbitPlace(RabbitClient client) : client_(std::move(client)) {}

  Status Clear(std::span<const std::string_view> prefixes) override {
    TM_ASSIGN_OR_RETURN(const RabbitBook* book, client_.Book());
    std::vector<std::string> names;
    for (const std::string_view prefix : prefixes) {
      book->ForEach(Note(prefix), RabbitClient::Now(),
                    [&](std::string_view rest, const RabbitNote&) {
                      names.push_back(std::string(prefix) + std::string(rest));
                    });
    }
    for (const std::string& name : names) TM_RETURN_IF_ERROR(Remove(name));
    return Ok();
  }

  Status Put(std::string_view name, std::span<const std::string_view> parts) override {
    size_t bytes = 0;
    for (const std::string_view part : parts) bytes += part.size();
    if (bytes <= kReplacedBytes) {
      std::string small(kInOne);
      for (const std::string_view part : parts) small += part;
      return client_.Write(Note(name), std::move(small), kObjectsLast);
    }
    size_t pieces = 0;
    TM_RETURN_IF_ERROR(client_.OnChannel(
        [&](RabbitClient::Channel& channel) { return PutPieces(channel, name, parts, pieces); }));
    return client_.Write(Note(name), std::string(kInPieces) + std::to_string(pieces), kObjectsLast);
  }

  Status Remove(std::string_view name) override {
    TM_ASSIGN_OR_RETURN(const std::optional<std::string> head, Head(name));
    if (!head) return Ok();
    TM_RETURN_IF_ERROR(client_.Erase(Note(name)));
    if (!PiecesIn(*head)) return Ok();
    return client_.OnChannel(
        [&](RabbitClient::Channel& channel) { return DeletePieces(channel, name); });
  }

  Result<std::string> Get(std::string_view name, size_t bytes_max) override {
    TM_ASSIGN_OR_RETURN(const std::optional<std::string> head, Head(name));
    if (!head) return NotFound(Name(name) + ": there is no such object");
    if (!head->starts_with(kInOne) || head->size() - kInOne.size() > bytes_max) {
      return Invalid(Name(name) + ": has more than " + std::to_string(bytes_max) + " bytes");
    }
    return head->substr(kInOne.size());
  }

  Status Read(std::string_view name, std::span<std::byte> to) override {
    TM_ASSIGN_OR_RETURN(const std::optional<std::string> head, Head(name));
    if (!head) return NotFound(Name(name) + ": there is no such object");
    size_t at = 0;
    const auto take = [&](std::string_view piece) {
      const bool fits = piece.size() <= to.size() - at;
      if (fits) std::memcpy(to.data() + at, piece.data(), piece.size());
      at += piece.size();
      return fits;
    };
    bool fits = true;
    if (const std::optional<size_t> pieces = PiecesIn(*head); pieces) {
      TM_RETURN_IF_ERROR(client_.OnChannel([&](RabbitClient::Channel& channel) {
        return ReadPieces(channel, name, *pieces, [&](std::string_view piece) {
          fits = fits && take(piece);
          return fits;
        });
      }));
    } else if (head->starts_with(kInOne)) {
      fits = take(std::string_view(*head).substr(kInOne.size()));
    }
    if (fits && at == to.size()) return Ok();
    return Corrupt(Name(name) + ": does not have the expected " + std::to_string(to.size()) +
                   " bytes");
  }

  std::string Name(std::string_view name) const override {
    return "rabbitmq at " + client_.address().Name() + ", " + client_.names().Object(name);
  }

 private:
  static std::string Note(std::string_view name) {
    return std::string(kObjectNote) + std::string(name);
  }

  Result<std::optional<std::string>> Head(std::string_view name) {
    TM_ASSIGN_OR_RETURN(const RabbitBook* book, client_.Book());
    const RabbitNote* note = book->Find(Note(name), RabbitClient::Now());
    if (note == nullptr) return std::optional<std::string>();
    return std::optional<std::string>(note->value);
  }

  Status DeletePieces(RabbitClient::Channel& channel, std::string_view name) {
    return channel
        .Ask([&](RabbitConnection& connection, uint16_t number) {
          return connection.Delete(number, client_.names().Object(name));
        })
        .status();
  }

  // What an attempt that broke off left behind is deleted first.
  Status PutPieces(RabbitClient::Channel& channel, std::string_view name,
                   std::span<const std::string_view> parts, size_t& pieces) {
    const RabbitQueue stream = ObjectQueue(client_.names(), name);
    TM_RETURN_IF_ERROR(DeletePieces(channel, name));
    TM_RETURN_IF_ERROR(channel
                           .Ask([&](RabbitConnection& connection, uint16_t number) {
                             return connection.Declare(number, stream);
                           })
                           .status());
    TM_RETURN_IF_ERROR(channel
                           .Ask([](RabbitConnection& connection, uint16_t number) {
                             return connection.ConfirmPublishes(number);
                           })
                           .status());
    RabbitMessage message;
    message.key = stream.name;
    message.mandatory = true;
    for (const std::string_view part : parts) {
      for (size_t at = 0; at < part.size(); at += kStreamPieceBytes, ++pieces) {
        message.body = part.substr(at, kStreamPieceBytes);
        TM_RETURN_IF_ERROR(channel.Send([&](RabbitConnection& connection, uint16_t number) {
          return connection.Publish(number, message);
        }));
        TM_RETURN_IF_ERROR(channel.AwaitConfirm());
      }
    }
    return Ok();
  }

  Status ReadPieces(RabbitClient::Channel& channel, std::string_view name, size_t pieces,
                    const std::function<bool(std::string_view)>& take) {
    const std::string stream = client_.names().Object(name);
    TM_RETURN_IF_ERROR(channel
                           .Ask([](RabbitConnection& connection, uint16_t number) {
                             return connection.Prefetch(number, kPrefetch);
                           })
                           .status());
    TM_RETURN_IF_ERROR(channel.Send([&](RabbitConnection& connection, uint16_t number) {
      return connection.Consume(number, {.queue = stream,
                                         .name = "pieces",
                                         .arguments = {{"x-stream-offset", std::string("first")}}});
    }));
    for (size_t i = 0; i < pieces; ++i) {
      TM_ASSIGN_OR_RETURN(const std::optional<RabbitEvent> piece,
                          channel.NextDelivery(kPiecePatience));
      if (!piece) {
        return NotFound(Name(name) + ": piece " + std::to_string(i) + " is not there any more");
      }
      if (!take(piece->message.body)) return Ok();
      TM_RETURN_IF_ERROR(channel.Send([&](RabbitConnection& connection, uint16_t number) {
        return connection.Ack(number, piece->tag);
      }));
    }
    return Ok();
  }

  RabbitClient client_;
};

}  // namespace

Result<std::unique_ptr<ObjectPlace>> ConnectRabbitPlace(const std::string& url,
                                                        const std::string& run) {
  TM_ASSIGN_OR_RETURN(RabbitClient client, RabbitClient::Connect(url, run));
  return std::unique_ptr<ObjectPlace>(std::make_unique<RabbitPlace>(std::move(client)));
}

}  // namespace tidemill
