// Objects of the run on its RabbitMQ, for what workers on other hosts need and no shared folder
// has.
//
//   note object:NAME in the book   a small object; or how many pieces a large one has
//   stream RUN/object/NAME         its pieces, which any number of readers read
//
// Nobody's objects stay for longer than a day after they were written.
#pragma once

#include <memory>
#include <string>

#include "core/object_place.h"
#include "core/status.h"

namespace tidemill {

// kInvalid: the URL or the run's name is wrong.
Result<std::unique_ptr<ObjectPlace>> ConnectRabbitPlace(const std::string& url,
                                                        const std::string& run);

}  // namespace tidemill
