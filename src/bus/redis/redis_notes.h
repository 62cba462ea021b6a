// The note board on Redis: a key {RUN}:NAME for each note.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bus/note_board.h"
#include "bus/redis/redis_client.h"

namespace tidemill {

class RedisNotes final : public NoteBoard {
 public:
  // kInvalid: the URL or the run's name is wrong.
  static Result<RedisNotes> Connect(std::string_view url, std::string_view run, Duration timeout);
  Status Put(std::string_view name, std::string_view text, Duration time) override;
  Result<std::optional<std::string>> Get(std::string_view name) override;
  Status Erase(std::string_view name) override;

 private:
  RedisNotes(RedisClient client, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)) {}
  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }

  RedisClient client_;
  std::string prefix_;
};

}  // namespace tidemill
