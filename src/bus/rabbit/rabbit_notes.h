// The note board on RabbitMQ: notes "note:NAME" in the run's book.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bus/note_board.h"
#include "bus/rabbit/rabbit_client.h"

namespace tidemill {

class RabbitNotes final : public NoteBoard {
 public:
  // kInvalid: the URL or the run's name is wrong.
  static Result<RabbitNotes> Connect(std::string_view url, std::string_view run, Duration timeout);
  Status Put(std::string_view name, std::string_view text, Duration time) override;
  Result<std::optional<std::string>> Get(std::string_view name) override;
  Status Erase(std::string_view name) override;

 private:
  explicit RabbitNotes(RabbitClient client) : client_(std::move(client)) {}

  RabbitClient client_;
};

}  // namespace tidemill
