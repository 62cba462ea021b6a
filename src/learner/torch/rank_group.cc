#include "learner/torch/rank_group.h"

#ifdef USE_C10D_GLOO

#include <unistd.h>

#include "policy/torch/aten.h"

#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "learner/torch/rank_meeting.h"
#include "learner/torch/rank_roll.h"
#include "policy/torch/catch.h"
#include "policy/torch/host_copy.h"
#include "policy/weight_wire.h"

namespace tidemill {
namespace {

using at::Tensor;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr uint64_t kMagic = 0x74696465'72616e6b;
constexpr uint64_t kPayloadMax = uint64_t{2} << 30;
constexpr int kCheckInTag = 1, kOrderTag = 2, kPayloadTag = 3;
// Rank 0 says every minute that it is there, but may be long over a step or a checkpoint. One that
// ends closes its connections, which is noticed at once.
constexpr milliseconds kLeaderLimit = std::chrono::minutes(30);
constexpr milliseconds kGlance = std::chrono::seconds(1);
constexpr milliseconds kConnectLimit =
    std::chrono::seconds(10);  // and of a sum under way, at least

// What a rank says to rank 0 when it has come to a sum, or when it cannot.
struct CheckIn {
  uint64_t magic = kMagic;
  uint64_t count = 0;  // how many before this
  uint64_t fingerprint = 0;
  uint64_t code = 0;  // not 0: a failure
  char text[480] = {};
};

struct OrderHeader {
  uint64_t magic = kMagic;
  uint64_t kind = 0, number = 0, step = 0, bytes = 0, checksum = 0;
};

uint64_t ChecksumOf(const std::string& bytes) {
  WeightChecksum sum;
  sum.Add(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  return sum.Value();
}

// The tensor's memory is the object's.
template <typename T>
std::vector<Tensor> Bytes(T& object) {
  return {at::from_blob(&object, {static_cast<int64_t>(sizeof object)}, at::kByte)};
}
std::vector<Tensor> Bytes(std::string& text) {
  return {at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte)};
}

Result<StorePtr> OpenStore(const MeetingPlace& place, bool first, milliseconds limit) {
  return CatchTorch<StorePtr>("meeting the other ranks", [&]() -> Result<StorePtr> {
    if (!place.file.empty()) {
      // -1: the file stays when processes leave; its folder's owner removes it.
      StorePtr store = c10::make_intrusive<c10d::FileStore>(place.file, -1);
      store->setTimeout(limit);
      return store;
    }
    c10d::TCPStoreOptions options;
    options.port = place.port;
    options.isServer = first;
    options.waitWorkers = false;
    options.timeout = limit;
    return StorePtr(c10::make_intrusive<c10d::TCPStore>(place.host, options));
  });
}

}  // namespace

class RankGroup::Impl {
 public:
  Impl(RankGroupOptions options, StorePtr store, int rank, int size)
      : options_(std::move(options)), store_(std::move(store)), rank_(rank), size_(size) {}

  // `others` are known to rank 0 alone.
  Status Connect(const MeetingPlace& place, std::vector<RankMember> others) {
    members_ = std::move(others);
    std::string address = place.file.empty() ? place.host : "127.0.0.1";
    if (rank_ > 0 && place.file.empty()) {
      TM_ASSIGN_OR_RETURN(address, AddressTowards(place.host, place.port));
    }
    try {
      auto gloo = c10d::ProcessGroupGloo::Options::create(
          rank_ == 0 ? std::max(options_.timeout, kConnectLimit) : kLeaderLimit);
      gloo->threads = 1;
      gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
      gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>("gloo", store_), rank_, size_, gloo);
      return Ok();
    } catch (const std::exception& error) {
      return Unavailable("connecting the ranks: " + FirstLine(error.what()));
    }
  }

  Status Send(const RankOrder& order) {
    if (order.payload.size() > kPayloadMax) {
      return Invalid("a batch of " + std::to_string(order.payload.size()) +
                     " bytes is too large to be sent to the other ranks");
    }
    OrderHeader header{kMagic,     order.kind,           order.number,
                       order.step, order.payload.size(), ChecksumOf(order.payload)};
    std::string payload = order.payload;
    for (int r = 1; r < size_; ++r) {
      TM_RETURN_IF_ERROR(With(r, options_.timeout, [&](milliseconds limit) {
        auto bytes = Bytes(header);
        gloo_->send(bytes, r, kOrderTag)->wait(limit);
        if (payload.empty()) return;
        auto body = Bytes(payload);
        gloo_->send(body, r, kPayloadTag)->wait(limit);
      }));
    }
    return Ok();
  }

  Result<RankOrder> Next() {
    OrderHeader header;
    RankOrder order;
    try {
      auto bytes = Bytes(header);
      gloo_->recv(bytes, 0, kOrderTag)->wait(kLeaderLimit);
      if (header.magic != kMagic || header.bytes > kPayloadMax) {
        return Corrupt("what rank 0 sent is not an order");
      }
      order.payload.resize(header.bytes);
      if (header.bytes > 0) {
        auto body = Bytes(order.payload);
        gloo_->recv(body, 0, kPayloadTag)->wait(kLeaderLimit);
      }
    } catch (const std::exception& error) {
      return Unavailable("rank 0 is gone: " + FirstLine(error.what()));
    }
    if (ChecksumOf(order.payload) != header.checksum) {
      return Corrupt("an order of rank 0 came with other bytes than it was sent with");
    }
    order.kind = static_cast<RankOrder::Kind>(header.kind);
    order.number = header.number;
    order.step = header.step;
    return order;
  }

  Status Sum(std::vector<Tensor>& tensors) {
    TM_RETURN_IF_ERROR(Meet(0, options_.timeout));
    for (Tensor& tensor : tensors) {
      if (tensor.numel() == 0) continue;
      TM_RETURN_IF_ERROR(Collective([&] { AllReduce(tensor); }));
    }
    return Ok();
  }

  Result<double> FromFirst(double number) {
    std::vector<Tensor> tensors = {at::full({1}, number, at::kDouble)};
    TM_RETURN_IF_ERROR(Collective([&] { Await(gloo_->broadcast(tensors)); }));
    return tensors[0].item<double>();
  }

  // Every rank comes here; rank 0 leaves when all have. With a fingerprint: they must be equal.
  Status Meet(uint64_t fingerprint, milliseconds limit) {
    CheckIn own;
    own.count = check_ins_++;
    own.fingerprint = fingerprint;
    if (rank_ > 0) return Tell(own);
    for (int r = 1; r < size_; ++r) {
      CheckIn other;
      TM_RETURN_IF_ERROR(With(r, limit, [&](milliseconds left) {
        auto bytes = Bytes(other);
        gloo_->recv(bytes, r, kCheckInTag)->wait(left);
      }));
      if (other.magic != kMagic) return Corrupt(Name(r) + " sent what is no message of ours");
      if (other.code != 0) {
        other.text[sizeof other.text - 1] = 0;
        lost_ = 1;
        return Status(static_cast<Code>(other.code), Name(r) + ": " + other.text);
      }
      if (other.count != own.count) {
        return Corrupt(Name(r) + " is at sum " + std::to_string(other.count) +
                       " where rank 0 is at " + std::to_string(own.count));
      }
      if (other.fingerprint != fingerprint) {
        return Corrupt(Name(r) +
                       " holds other weights than rank 0: ranks must read the same files "
                       "and run on machines of one kind");
      }
    }
    return Ok();
  }

  void Fail(const Status& status) {
    CheckIn own;
    own.code = static_cast<uint64_t>(status.code());
    std::strncpy(own.text, status.message().c_str(), sizeof own.text - 1);
    (void)Tell(own);  // who is to be told may be what failed
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  int lost() const { return lost_; }
  milliseconds join_limit() const { return options_.join_limit; }

 private:
  Status Tell(CheckIn& own) {
    try {
      auto bytes = Bytes(own);
      gloo_->send(bytes, 0, kCheckInTag)->wait(kLeaderLimit);
      return Ok();
    } catch (const std::exception& error) {
      return Unavailable("rank 0 is gone: " + FirstLine(error.what()));
    }
  }

  void AllReduce(Tensor& tensor) {
#ifdef USE_C10D_NCCL
    if (tensor.is_cuda()) return AllReduceNccl(tensor);
#endif
    std::vector<Tensor> host = {HostCopy(tensor)};
    Await(gloo_->allreduce(host));
    if (host[0].data_ptr() != tensor.data_ptr()) tensor.copy_(host[0]);
  }

  // Gloo does not always notice in the middle of a sum that the others have closed their
  // connections. Rank 0 has a time limit; the others look whether rank 0's store is still there
  // (those it started itself end with it anyway).
  template <typename WorkPtr>
  void Await(WorkPtr work) {
    while (rank_ > 0 && options_.meeting.find("file:") != 0 && !work->isCompleted()) {
      try {
        work->wait(kGlance);
      } catch (const std::exception&) {
        if (work->isCompleted()) throw;
        (void)store_->check({"members"});  // throws when it is gone
      }
    }
    work->wait();
  }

#ifdef USE_C10D_NCCL
  void AllReduceNccl(Tensor& tensor) {
    if (!nccl_) {
      nccl_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<c10d::PrefixStore>("nccl", store_), rank_, size_,
          c10d::ProcessGroupNCCL::Options::create());
    }
    std::vector<Tensor> tensors = {tensor};
    const auto work = nccl_->allreduce(tensors);
    const auto end = SteadyClock::now() + (rank_ == 0 ? options_.timeout : kLeaderLimit);
    while (!work->isCompleted()) {
      if (SteadyClock::now() > end) throw std::runtime_error("NCCL did not finish in time");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    work->wait();  // orders the stream behind it, and throws what went wrong
  }
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl_;
#endif

  std::string Name(int rank) const {
    return "rank " + std::to_string(rank) + " (" + members_[static_cast<size_t>(rank - 1)].who +
           ")";
  }

  // What became of its process. One that just died is not a zombie yet when its connections close.
  std::string Fate(int rank, milliseconds patience) const {
    if (!options_.fate) return "";
    const auto end = SteadyClock::now() + patience;
    for (;;) {
      std::string fate = options_.fate(members_[static_cast<size_t>(rank - 1)].process);
      if (!fate.empty() || SteadyClock::now() >= end) return fate;
      std::this_thread::sleep_for(milliseconds(10));
    }
  }

  // Something between rank 0 and another.
  template <typename Talk>
  Status With(int rank, milliseconds limit, Talk&& talk) {
    const auto began = SteadyClock::now();
    try {
      talk(limit);
      return Ok();
    } catch (const std::exception& error) {
      lost_ = 1;
      if (SteadyClock::now() - began >= limit) {
        return Unavailable(Name(rank) + " did not answer within " + std::to_string(limit.count()) +
                           " ms (learner.rank_timeout)");
      }
      const std::string fate = Fate(rank, milliseconds(1000));
      return Unavailable(Name(rank) +
                         (fate.empty() ? " is gone: " + FirstLine(error.what()) : " " + fate));
    }
  }

  // Something of all together, where nobody says who is missing.
  template <typename Work>
  Status Collective(Work&& work) {
    try {
      work();
      return Ok();
    } catch (const std::exception& error) {
      const std::string why = FirstLine(error.what());
      if (rank_ > 0) return Unavailable("a rank is gone: " + why);
      for (int r = 1; r < size_; ++r) {
        const std::string fate = Fate(r, milliseconds(500));
        if (fate.empty()) continue;
        lost_ = 1;
        return Unavailable(Name(r) + " " + fate);
      }
      lost_ = 1;
      return Unavailable((size_ == 2 ? Name(1) : "one of ranks 1 to " + std::to_string(size_ - 1)) +
                         " left in the middle of a sum: " + why);
    }
  }

  const RankGroupOptions options_;
  StorePtr store_;  // shared with the group, which is c10d's way
  const int rank_, size_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  std::vector<RankMember> members_;  // from rank 1 on, on rank 0
  uint64_t check_ins_ = 0;
  int lost_ = 0;
};

bool RankGroup::Available() {
  return true;
}

Result<std::unique_ptr<RankGroup>> RankGroup::Gather(const RankGroupOptions& options) {
  using Made = std::unique_ptr<RankGroup>;
  TM_ASSIGN_OR_RETURN(const MeetingPlace place, ParseMeeting(options.meeting));
  return CatchTorch<Made>("gathering the ranks", [&]() -> Result<Made> {
    TM_ASSIGN_OR_RETURN(const StorePtr store, OpenStore(place, true, options.join_limit));
    std::vector<RankMember> others = CallTheRoll(store, options);
    const int size = 1 + static_cast<int>(others.size());
    auto impl = std::make_unique<Impl>(options, store, 0, size);
    if (size > 1) TM_RETURN_IF_ERROR(impl->Connect(place, std::move(others)));
    return Made(new RankGroup(std::move(impl)));
  });
}

Result<std::unique_ptr<RankGroup>> RankGroup::Join(const RankGroupOptions& options) {
  using Made = std::unique_ptr<RankGroup>;
  TM_ASSIGN_OR_RETURN(const MeetingPlace place, ParseMeeting(options.meeting));
  try {
    TM_ASSIGN_OR_RETURN(const StorePtr store, OpenStore(place, false, options.join_limit));
    TM_ASSIGN_OR_RETURN(const RankPlace own, AnswerTheRoll(store, options));
    auto impl = std::make_unique<Impl>(options, store, own.rank, own.size);
    TM_RETURN_IF_ERROR(impl->Connect(place, {}));
    return Made(new RankGroup(std::move(impl)));
  } catch (const std::exception& error) {
    return Unavailable("rank 0 at " + options.meeting + ": " + FirstLine(error.what()));
  }
}

RankGroup::RankGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RankGroup::~RankGroup() = default;

int RankGroup::rank() const {
  return impl_->rank();
}
int RankGroup::size() const {
  return impl_->size();
}
int RankGroup::lost() const {
  return impl_->lost();
}
Status RankGroup::Send(const RankOrder& order) {
  return impl_->Send(order);
}
Result<RankOrder> RankGroup::Next() {
  return impl_->Next();
}
Status RankGroup::Sum(std::vector<Tensor> tensors) {
  return impl_->Sum(tensors);
}
Result<double> RankGroup::FromFirst(double number) {
  return impl_->FromFirst(number);
}
Status RankGroup::Agree(uint64_t fingerprint) {
  return impl_->Meet(fingerprint, impl_->join_limit());
}
void RankGroup::Fail(const Status& status) {
  impl_->Fail(status);
}

}  // namespace tidemill

#endif
