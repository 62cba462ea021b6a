// Weights through shared memory on one host: two slots that are written in turn, so that one of
// them is always whole.
//
// The memory belongs to the publisher's process (memfd) and is reached through /proc/PID/fd/N: when
// the publisher dies, by whatever means, nothing is left to clean up, and who has it open keeps the
// versions that were complete.
#pragma once

#include <memory>
#include <string>

#include "weights/weight_wire.h"

namespace tidemill {

class ShmWeightSink final : public WeightSink {
 public:
  // Room for versions of up to `bytes` each. `incarnation` (not 0) tells a late subscriber whether
  // what it opened is what was announced.
  static Result<std::unique_ptr<ShmWeightSink>> Create(size_t bytes, uint64_t incarnation);
  ~ShmWeightSink() override;

  // kInvalid: larger than the slots, or a version that is not above the last.
  Status Put(uint64_t version, uint64_t step, const SafetensorsParts& parts) override;

  // Where processes of the same user (or root) on this host open it: "/proc/4711/fd/9".
  std::string location() const;

 private:
  ShmWeightSink(int fd, void* map, size_t mapped) : fd_(fd), map_(map), mapped_(mapped) {}
  int fd_;
  void* map_;
  size_t mapped_;
};

// kNotFound: nothing there (the publisher is gone, or in another container); kCorrupt: something
// else is there.
Result<std::unique_ptr<WeightSource>> OpenShmWeights(const std::string& location,
                                                     uint64_t incarnation);

// Names this boot of this kernel and its numbering of processes: those with the same domain can
// open each other's locations.
std::string ShmDomain();

}  // namespace tidemill
