#include "bus/redis/redis_place.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "bus/redis/redis_scripts.h"

namespace tidemill {
namespace {

// Large enough for few round trips, small enough for a slow link's patience with one answer.
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr std::string_view kPieces = "pieces ";
constexpr std::string_view kSmall = "small ";
constexpr std::string_view kLifeMs = "86400000";
constexpr Duration kPatience = std::chrono::seconds(30);
constexpr int kTries = 5;
constexpr Duration kRetryPause = milliseconds(200);

class RedisPlace final : public ObjectPlace {
 public:
  RedisPlace(RedisClient client, const std::string& run)
      : client_(std::move(client)), prefix_(RedisKeys(run).prefix + "object:") {}

  Status Clear(std::span<const std::string_view> prefixes) override {
    for (const std::string_view prefix : prefixes) {
      std::string cursor = "0";
      const std::string pattern = Key(prefix) + "*";
      do {
        TM_ASSIGN_OR_RETURN(const ReplyPtr page,
                            client_.Do({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}));
        if (page->type != REDIS_REPLY_ARRAY || page->elements != 2) {
          return Unavailable("redis: SCAN: unexpected answer");
        }
        cursor = ReplyText(*page->element[0]);
        for (size_t i = 0; i < page->element[1]->elements; ++i) {
          const std::string_view key = ReplyText(*page->element[1]->element[i]);
          TM_RETURN_IF_ERROR(client_.Do({"UNLINK", key}).status());
        }
      } while (cursor != "0");
    }
    return Ok();
  }

  Status Put(std::string_view name, std::span<const std::string_view> parts) override {
    size_t bytes = 0;
    for (const std::string_view part : parts) bytes += part.size();
    if (bytes <= kReplacedBytes) {
      std::string small(kSmall);
      for (const std::string_view part : parts) small += part;
      return Set(Key(name), small);
    }
    size_t pieces = 0;
    for (const std::string_view part : parts) {
      for (size_t at = 0; at < part.size(); at += kPieceBytes, ++pieces) {
        TM_RETURN_IF_ERROR(Set(PieceKey(name, pieces), part.substr(at, kPieceBytes)));
      }
    }
    return Set(Key(name), std::string(kPieces) + std::to_string(pieces));
  }

  Status Remove(std::string_view name) override {
    TM_ASSIGN_OR_RETURN(const std::optional<std::string> head, Head(name));
    if (!head) return Ok();
    TM_RETURN_IF_ERROR(client_.Do({"UNLINK", Key(name)}).status());
    const std::optional<size_t> pieces = PiecesOf(*head);
    for (size_t i = 0; i < pieces.value_or(0); ++i) {
      TM_RETURN_IF_ERROR(client_.Do({"UNLINK", PieceKey(name, i)}).status());
    }
    return Ok();
  }

  Result<std::string> Get(std::string_view name, size_t bytes_max) override {
    TM_ASSIGN_OR_RETURN(const std::optional<std::string> head, Head(name));
    if (!head) return NotFound(Name(name) + ": there is no such object");
    if (!head->starts_with(kSmall) || head->size() - kSmall.size() > bytes_max) {
      return Invalid(Name(name) + ": has more than " + std::to_string(bytes_max) + " bytes");
    }
    return head->substr(kSmall.size());
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
    const std::optional<size_t> pieces = PiecesOf(*head);
    bool fits = true;
    if (head->starts_with(kSmall)) fits = take(std::string_view(*head).substr(kSmall.size()));
    for (size_t i = 0; i < pieces.value_or(0) && fits; ++i) {
      TM_ASSIGN_OR_RETURN(const ReplyPtr piece, Fetch(PieceKey(name, i)));
      if (piece->type != REDIS_REPLY_STRING) {
        return NotFound(Name(name) + ": piece " + std::to_string(i) + " is not there any more");
      }
      fits = take(ReplyText(*piece));
    }
    if (fits && at == to.size()) return Ok();
    return Corrupt(Name(name) + ": does not have the expected " + std::to_string(to.size()) +
                   " bytes");
  }

  std::string Name(std::string_view name) const override {
    return "redis at " + client_.address().Name() + ", " + Key(name);
  }

 private:
  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }
  std::string PieceKey(std::string_view name, size_t i) const {
    return Key(name) + ":" + std::to_string(i);
  }

  static std::optional<size_t> PiecesOf(std::string_view head) {
    if (!head.starts_with(kPieces)) return std::nullopt;
    size_t pieces = 0;
    const char* end = head.data() + head.size();
    const auto read = std::from_chars(head.data() + kPieces.size(), end, pieces);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return pieces;
  }

  Status Set(const std::string& key, std::string_view value) {
    return client_.Do({"SET", key, value, "PX", kLifeMs}).status();
  }

  // A link that breaks in the middle costs the piece that was under way.
  Result<ReplyPtr> Fetch(const std::string& key) {
    for (int i = 1;; ++i) {
      Result<ReplyPtr> reply = client_.Do({"GET", key});
      if (reply.ok() || reply.status().code() != Code::kUnavailable || i == kTries) return reply;
      std::this_thread::sleep_for(kRetryPause);
    }
  }

  Result<std::optional<std::string>> Head(std::string_view name) {
    TM_ASSIGN_OR_RETURN(const ReplyPtr reply, Fetch(Key(name)));
    if (reply->type == REDIS_REPLY_NIL) return std::optional<std::string>();
    return std::optional<std::string>(ReplyText(*reply));
  }

  RedisClient client_;
  const std::string prefix_;
};

}  // namespace

Result<std::unique_ptr<ObjectPlace>> ConnectRedisPlace(const std::string& url,
                                                       const std::string& run) {
  TM_RETURN_IF_ERROR(CheckRedisRun(run));
  TM_ASSIGN_OR_RETURN(RedisClient client, RedisClient::Connect(url, kPatience));
  return std::unique_ptr<ObjectPlace>(std::make_unique<RedisPlace>(std::move(client), run));
}

}  // namespace tidemill
