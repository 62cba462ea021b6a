#include "weights/shm_weights.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tidemill {
namespace {

constexpr char kMagic[8] = {'T', 'M', 'W', 'E', 'I', 'G', 'H', 'T'};
constexpr uint32_t kLayout = 1;
constexpr size_t kHeaderBytes = 4096;
// A publisher that overtakes us this often in a row is faster than we copy; try again later.
constexpr int kOvertakenMax = 8;

struct Slot {
  std::atomic<uint64_t> number;  // of the publication it holds; 0 while it is written
  std::atomic<uint64_t> version, step, bytes, checksum;
};

// The first page; the two slots' bytes follow. Publication n is in slot n % 2.
struct Header {
  char magic[8];
  uint32_t layout;
  uint32_t pad;
  uint64_t incarnation;
  uint64_t slot_bytes;
  std::atomic<uint64_t> newest;  // number of the last complete publication; 0: none yet
  std::atomic<uint32_t> bell;    // counts publications; subscribers sleep on it
  Slot slots[2];
};
static_assert(sizeof(Header) <= kHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

size_t RoundUp(size_t bytes) {
  return (bytes + kHeaderBytes - 1) / kHeaderBytes * kHeaderBytes;
}

Status Failure(const std::string& what) {
  return Unavailable("shared memory for weights: " + what + ": " + std::strerror(errno));
}

class ShmWeightSource final : public WeightSource {
 public:
  ShmWeightSource(std::string location, const void* map, size_t mapped, size_t slot_bytes)
      : location_(std::move(location)), map_(map), mapped_(mapped), slot_bytes_(slot_bytes) {}
  ~ShmWeightSource() override { munmap(const_cast<void*>(map_), mapped_); }

  Result<WeightBlob> NewerThan(uint64_t have, WeightBuffers& buffers) override {
    for (int i = 0; i < kOvertakenMax; ++i) {
      const uint64_t number = header().newest.load(std::memory_order_acquire);
      if (number == 0) return WeightBlob{};
      const Slot& slot = header().slots[number % 2];
      if (slot.number.load(std::memory_order_acquire) != number) continue;  // overtaken
      WeightBlob blob;
      blob.version = slot.version.load(std::memory_order_relaxed);
      blob.step = slot.step.load(std::memory_order_relaxed);
      blob.bytes = slot.bytes.load(std::memory_order_relaxed);
      const uint64_t expected = slot.checksum.load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (slot.number.load(std::memory_order_relaxed) != number) continue;
      if (blob.version <= have) return WeightBlob{};
      if (blob.bytes > slot_bytes_) return Wrong(blob.version, "is larger than its slot");
      const auto buffer = buffers.Get(blob.bytes);
      WeightChecksum sum;
      CopyChecked(buffer->data(), Place(number % 2), blob.bytes, sum);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (slot.number.load(std::memory_order_relaxed) != number) continue;  // written meanwhile
      if (sum.Value() != expected) return Wrong(blob.version, "has the wrong checksum");
      blob.buffer = buffer;
      return blob;
    }
    return WeightBlob{};
  }

  void WaitForNewer(uint64_t have, Duration patience) override {
    const uint32_t bell = header().bell.load(std::memory_order_acquire);
    const uint64_t number = header().newest.load(std::memory_order_acquire);
    if (number != 0 && header().slots[number % 2].version.load() > have) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
    const timespec limit = {.tv_sec = seconds.count(), .tv_nsec = (patience - seconds).count()};
    syscall(SYS_futex, &header().bell, FUTEX_WAIT, bell, &limit, nullptr, 0);
  }

 private:
  const Header& header() const { return *static_cast<const Header*>(map_); }
  const std::byte* Place(size_t slot) const {
    return static_cast<const std::byte*>(map_) + kHeaderBytes + slot * slot_bytes_;
  }
  Status Wrong(uint64_t version, const std::string& what) const {
    return Corrupt("shared memory " + location_ + ": version " + std::to_string(version) + " " +
                   what);
  }

  const std::string location_;
  const void* map_;
  const size_t mapped_;
  const size_t slot_bytes_;  // as checked when it was opened: what the memory says may change
};

}  // namespace

Result<std::unique_ptr<ShmWeightSink>> ShmWeightSink::Create(size_t bytes, uint64_t incarnation) {
  const size_t slot_bytes = RoundUp(bytes);
  const size_t total = kHeaderBytes + 2 * slot_bytes;
  const int fd = memfd_create("tidemill-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Failure("memfd_create");
  // Taken now, not page by page: a machine without the memory says so here and not by SIGBUS.
  if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(total)); error != 0) {
    close(fd);
    errno = error;
    return Failure(std::to_string(total) + " bytes");
  }
  // Who reads must not find it cut short, which would be SIGBUS.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    const Status failed = Failure("F_ADD_SEALS");
    close(fd);
    return failed;
  }
  void* map = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    const Status failed = Failure("mmap");
    close(fd);
    return failed;
  }
  auto* header = new (map) Header();
  header->layout = kLayout;
  header->incarnation = incarnation;
  header->slot_bytes = slot_bytes;
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  return std::unique_ptr<ShmWeightSink>(new ShmWeightSink(fd, map, total));
}

ShmWeightSink::~ShmWeightSink() {
  munmap(map_, mapped_);
  close(fd_);
}

std::string ShmWeightSink::location() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_);
}

Status ShmWeightSink::Put(uint64_t version, uint64_t step, const SafetensorsParts& parts) {
  Header& header = *static_cast<Header*>(map_);
  const uint64_t last = header.newest.load(std::memory_order_relaxed);
  if (last != 0 && version <= header.slots[last % 2].version.load(std::memory_order_relaxed)) {
    return Invalid("version " + std::to_string(version) + " is not above the newest published");
  }
  if (parts.bytes() > header.slot_bytes) {
    return Invalid("version " + std::to_string(version) + " has " + std::to_string(parts.bytes()) +
                   " bytes; the shared memory has room for " + std::to_string(header.slot_bytes));
  }
  const uint64_t number = last + 1;
  Slot& slot = header.slots[number % 2];
  slot.number.store(0, std::memory_order_relaxed);
  // Nothing below may be seen before the slot is marked.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto* to = static_cast<std::byte*>(map_) + kHeaderBytes + (number % 2) * header.slot_bytes;
  WeightChecksum sum;
  for (const std::string_view part : parts.parts) {
    CopyChecked(to, reinterpret_cast<const std::byte*>(part.data()), part.size(), sum);
    to += part.size();
  }
  slot.version.store(version, std::memory_order_relaxed);
  slot.step.store(step, std::memory_order_relaxed);
  slot.bytes.store(parts.bytes(), std::memory_order_relaxed);
  slot.checksum.store(sum.Value(), std::memory_order_relaxed);
  slot.number.store(number, std::memory_order_release);
  header.newest.store(number, std::memory_order_release);
  header.bell.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &header.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return Ok();
}

Result<std::unique_ptr<WeightSource>> OpenShmWeights(const std::string& location,
                                                     uint64_t incarnation) {
  const int fd = open(location.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return NotFound("shared memory " + location + ": cannot open: " + std::strerror(errno));
  }
  struct stat info = {};
  const int seals = fcntl(fd, F_GET_SEALS);
  const bool known = fstat(fd, &info) == 0 && info.st_size > static_cast<off_t>(kHeaderBytes) &&
                     seals != -1 && (seals & F_SEAL_SHRINK) != 0;
  const auto size = static_cast<size_t>(info.st_size);
  const void* map = known ? mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  if (map == MAP_FAILED) return Corrupt("shared memory " + location + ": contains no weights");
  const auto& header = *static_cast<const Header*>(map);
  const size_t slot_bytes = header.slot_bytes;
  const bool ours = std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
                    header.layout == kLayout && header.incarnation == incarnation &&
                    slot_bytes <= (size - kHeaderBytes) / 2;
  if (!ours) {
    munmap(const_cast<void*>(map), size);
    return Corrupt("shared memory " + location + ": does not contain the announced weights");
  }
  return std::unique_ptr<WeightSource>(
      std::make_unique<ShmWeightSource>(location, map, size, slot_bytes));
}

std::string ShmDomain() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  std::error_code error;
  return boot + " " + std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

}  // namespace tidemill
