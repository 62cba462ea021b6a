#ifdef USE_C10D_GLOO

#include "model/torch/aten.h"

#include "learner/torch/rank_links.h"

#include <array>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/fd.h"
#include "core/secret.h"
#include "model/torch/catch.h"
#include "model/torch/host_copy.h"

namespace tidemill {
namespace {

using at::Tensor;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Rank 0 says every minute that it is there, but may be long over a step or a checkpoint. One that
// ends closes its connections, which is noticed at once.
constexpr milliseconds kLeaderLimit = std::chrono::minutes(30);
constexpr milliseconds kLookEvery = std::chrono::seconds(1);
constexpr int kProofTag = 4;  // those of rank_group.cc are below
constexpr milliseconds kConnectLimit =
    std::chrono::seconds(10);  // and of a sum under way, at least

}  // namespace

Result<StorePtr> OpenRankStore(const MeetingPlace& place, bool first, milliseconds limit,
                               const std::string& secret) {
  // Nobody can ask the store for its keys: who cannot name them finds nothing and disturbs nobody.
  const auto own = [&](StorePtr store) -> StorePtr {
    if (secret.empty()) return store;
    return c10::make_intrusive<c10d::PrefixStore>(TokenFor(secret, "ranks"), std::move(store));
  };
  return CatchTorch<StorePtr>("meeting the other ranks", [&]() -> Result<StorePtr> {
    if (!place.file.empty()) {
      // -1: the file stays when processes leave; its folder's owner removes it.
      StorePtr store = c10::make_intrusive<c10d::FileStore>(place.file, -1);
      store->setTimeout(limit);
      return own(store);
    }
    c10d::TCPStoreOptions options;
    options.port = place.port;
    options.isServer = first;
    options.waitWorkers = false;
    options.timeout = limit;
    return own(c10::make_intrusive<c10d::TCPStore>(place.host, options));
  });
}

RankLinks::RankLinks(RankGroupOptions options, StorePtr store, int rank, int size)
    : options_(std::move(options)), store_(std::move(store)), rank_(rank), size_(size) {}

Status RankLinks::Connect(const MeetingPlace& place, std::vector<RankMember> others) {
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
    SealDescriptors();  // gloo's sockets are not close-on-exec
    return Ok();
  } catch (const std::exception& error) {
    return Unavailable("connecting the ranks: " + FirstLine(error.what()));
  }
}

// A port of Gloo takes any connection; this tells whose it took.
Status RankLinks::Prove() {
  struct Proof {
    std::array<char, 64> nonce;
    std::array<char, 32> token;
  };
  const auto text = [](const auto& field) { return std::string(field.data(), field.size()); };
  const auto bytes = [](auto& object) -> Bytes {
    return {at::from_blob(&object, {static_cast<int64_t>(sizeof object)}, at::kByte)};
  };
  const auto put = [](const std::string& from, auto& to) { from.copy(to.data(), to.size()); };
  const std::string& secret = options_.secret;
  if (secret.empty()) return Ok();
  const std::string nonce = NewSecret();
  Proof mine = {}, theirs = {};
  put(nonce, mine.nonce);
  if (rank_ > 0) {
    TM_RETURN_IF_ERROR(ReceiveFromFirst(kProofTag, bytes(theirs)));
    put(TokenFor(secret, "rank " + std::to_string(rank_) + text(theirs.nonce)), mine.token);
    TM_RETURN_IF_ERROR(SendToFirst(kProofTag, bytes(mine)));
    TM_RETURN_IF_ERROR(ReceiveFromFirst(kProofTag, bytes(theirs)));
    if (SameToken(text(theirs.token), TokenFor(secret, "first" + nonce))) return Ok();
    return Invalid("rank 0 does not know the secret of this run");
  }
  for (int rank = 1; rank < size_; ++rank) {
    TM_RETURN_IF_ERROR(SendTo(rank, kProofTag, bytes(mine), options_.timeout));
    TM_RETURN_IF_ERROR(ReceiveFrom(rank, kProofTag, bytes(theirs), options_.timeout));
    if (!SameToken(text(theirs.token), TokenFor(secret, "rank " + std::to_string(rank) + nonce))) {
      return Invalid(Name(rank) + " does not know the secret of this run");
    }
    Proof answer = {};
    put(TokenFor(secret, "first" + text(theirs.nonce)), answer.token);
    TM_RETURN_IF_ERROR(SendTo(rank, kProofTag, bytes(answer), options_.timeout));
  }
  return Ok();
}

std::string RankLinks::Name(int rank) const {
  return "rank " + std::to_string(rank) + " (" + members_[static_cast<size_t>(rank - 1)].who + ")";
}

// The state of its process. One that just died is not a zombie yet when its connections close.
std::string RankLinks::Fate(int rank, milliseconds patience) const {
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
Status RankLinks::With(int rank, milliseconds limit, Talk&& talk) {
  const auto began = SteadyClock::now();
  try {
    talk();
    return Ok();
  } catch (const std::exception& error) {
    lost_ = 1;
    if (SteadyClock::now() - began >= limit) {
      return Unavailable(Name(rank) + " did not answer within " + std::to_string(limit.count()) +
                         " ms (learner.rank_timeout)");
    }
    const std::string fate = Fate(rank, milliseconds(1000));
    return Unavailable(Name(rank) +
                       (fate.empty() ? " disconnected: " + FirstLine(error.what()) : " " + fate));
  }
}

template <typename Talk>
Status RankLinks::WithFirst(Talk&& talk) {
  try {
    talk();
    return Ok();
  } catch (const std::exception& error) {
    return Unavailable("rank 0 disconnected: " + FirstLine(error.what()));
  }
}

// Something of all together, where nobody says who is missing.
template <typename Work>
Status RankLinks::Collective(Work&& work) {
  try {
    work();
    return Ok();
  } catch (const std::exception& error) {
    const std::string why = FirstLine(error.what());
    if (rank_ > 0) return Unavailable("a rank disconnected: " + why);
    for (int r = 1; r < size_; ++r) {
      const std::string fate = Fate(r, milliseconds(500));
      if (fate.empty()) continue;
      lost_ = 1;
      return Unavailable(Name(r) + " " + fate);
    }
    lost_ = 1;
    return Unavailable((size_ == 2 ? Name(1) : "one of ranks 1 to " + std::to_string(size_ - 1)) +
                       " left during an all-reduce: " + why);
  }
}

Status RankLinks::SendTo(int rank, int tag, Bytes bytes, milliseconds limit) {
  return With(rank, limit, [&] { gloo_->send(bytes, rank, tag)->wait(limit); });
}
Status RankLinks::ReceiveFrom(int rank, int tag, Bytes bytes, milliseconds limit) {
  return With(rank, limit, [&] { gloo_->recv(bytes, rank, tag)->wait(limit); });
}
Status RankLinks::SendToFirst(int tag, Bytes bytes) {
  return WithFirst([&] { gloo_->send(bytes, 0, tag)->wait(kLeaderLimit); });
}
Status RankLinks::ReceiveFromFirst(int tag, Bytes bytes) {
  return WithFirst([&] { gloo_->recv(bytes, 0, tag)->wait(kLeaderLimit); });
}

Status RankLinks::Sum(Tensor& tensor) {
  return Collective([&] { AllReduce(tensor); });
}
Status RankLinks::Broadcast(Tensor& tensor) {
  std::vector<Tensor> tensors = {tensor};
  return Collective([&] { Await(gloo_->broadcast(tensors)); });
}

void RankLinks::AllReduce(Tensor& tensor) {
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
void RankLinks::Await(WorkPtr work) {
  while (rank_ > 0 && options_.meeting.find("file:") != 0 && !work->isCompleted()) {
    try {
      work->wait(kLookEvery);
    } catch (const std::exception&) {
      if (work->isCompleted()) throw;
      (void)store_->check({"members"});  // throws when it is gone
    }
  }
  work->wait();
}

#ifdef USE_C10D_NCCL
void RankLinks::AllReduceNccl(Tensor& tensor) {
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
#endif

}  // namespace tidemill

#endif
