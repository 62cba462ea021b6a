// A place that processes share, with named objects larger than messages: a folder, or the broker.
// One process writes, any number read.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// Belongs to one thread. A name is a plain file name: letters, digits, '.', '-'.
class ObjectPlace {
 public:
  virtual ~ObjectPlace() = default;

  // Takes away what an earlier writer left under names that begin with one of `prefixes`.
  virtual Status Clear(std::span<const std::string_view> prefixes) = 0;
  // The object appears whole, in place of an earlier one, or not at all. An object of more than
  // kReplacedBytes is never replaced: its name is not used again.
  virtual Status Put(std::string_view name, std::span<const std::string_view> parts) = 0;
  // An object that is not there is removed already.
  virtual Status Remove(std::string_view name) = 0;

  // kNotFound: no such object. kInvalid: it is larger than `bytes_max`.
  virtual Result<std::string> Get(std::string_view name, size_t bytes_max) = 0;
  // All of it. kCorrupt: it has another size.
  virtual Status Read(std::string_view name, std::span<std::byte> to) = 0;

  // For messages: "/runs/a/policy/newest.json".
  virtual std::string Name(std::string_view name) const = 0;
};

inline constexpr size_t kReplacedBytes = 64 * 1024;

}  // namespace tidemill
