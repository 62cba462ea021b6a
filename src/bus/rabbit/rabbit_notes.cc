#include "bus/rabbit/rabbit_notes.h"

#include <utility>

namespace tidemill {
namespace {

std::string NoteKey(std::string_view name) {
  return "note:" + std::string(name);
}

}  // namespace

Result<RabbitNotes> RabbitNotes::Connect(std::string_view url, std::string_view run,
                                         Duration timeout) {
  TM_ASSIGN_OR_RETURN(RabbitClient client, RabbitClient::Connect(url, run, timeout));
  return RabbitNotes(std::move(client));
}

Status RabbitNotes::Put(std::string_view name, std::string_view text, Duration time) {
  return client_.Write(NoteKey(name), std::string(text), time);
}

Result<std::optional<std::string>> RabbitNotes::Get(std::string_view name) {
  TM_ASSIGN_OR_RETURN(const RabbitBook* book, client_.Book());
  const RabbitNote* note = book->Find(NoteKey(name), RabbitClient::Now());
  if (note == nullptr) return std::optional<std::string>();
  return std::optional<std::string>(note->value);
}

Status RabbitNotes::Erase(std::string_view name) {
  return client_.Erase(NoteKey(name));
}

}  // namespace tidemill
