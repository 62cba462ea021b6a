// A member of a run's book: has a queue on the book's exchange and begins with a copy of what is in
// it, from a member that is there.
#pragma once

#include <cstdint>
#include <string>

#include "bus/rabbit/rabbit_book.h"
#include "bus/rabbit/rabbit_connection.h"
#include "bus/rabbit/rabbit_names.h"
#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

// The consumers of a member's channel.
inline constexpr std::string_view kBookConsumer = "book";
inline constexpr std::string_view kNewcomersConsumer = "newcomers";

// What a member is asked on the book's exchange, and what it answers: which messages of a topic it
// holds.
inline constexpr std::string_view kHeldQuestion = "what is held";
inline constexpr std::string_view kHeldBody = "held";
inline constexpr std::string_view kHeldEnd = "end of held";

// Opens the channel and joins. Where nobody is there the book is empty. Afterwards every delivery
// to kBookConsumer is for RabbitBook::Take.
Status JoinRabbitBook(RabbitConnection& connection, uint16_t channel, const RabbitNames& names,
                      const std::string& client, Duration patience, RabbitBook& book);
// From now on newcomers are answered here: deliveries to kNewcomersConsumer are for AnswerNewcomer.
Status ServeNewcomers(RabbitConnection& connection, uint16_t channel, const RabbitNames& names);
Status AnswerNewcomer(RabbitConnection& connection, uint16_t channel, const RabbitMessage& asked,
                      const RabbitBook& book, Time now);

}  // namespace tidemill
