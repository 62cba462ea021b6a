#include "learner/torch/rank_group.h"

#ifdef USE_C10D_GLOO

#include "model/torch/aten.h"

#include <cstring>

#include "learner/torch/rank_links.h"
#include "learner/torch/rank_meeting.h"
#include "learner/torch/rank_roll.h"
#include "model/torch/catch.h"
#include "weights/weight_wire.h"

namespace tidemill {
namespace {

using at::Tensor;
using std::chrono::milliseconds;

constexpr uint64_t kMagic = 0x74696465'72616e6b;
constexpr uint64_t kPayloadMax = uint64_t{2} << 30;
constexpr int kCheckInTag = 1, kOrderTag = 2, kPayloadTag = 3;

// A rank's message to rank 0 when it has come to a sum, or when it cannot.
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

}  // namespace

// Orders and check-ins, over the links.
class RankGroup::Impl {
 public:
  Impl(const RankGroupOptions& options, const StorePtr& store, int rank, int size)
      : links(options, store, rank, size) {}

  Status Send(const RankOrder& order) {
    if (order.payload.size() > kPayloadMax) {
      return Invalid("a batch of " + std::to_string(order.payload.size()) +
                     " bytes is too large to be sent to the other ranks");
    }
    OrderHeader header{kMagic,     order.kind,           order.number,
                       order.step, order.payload.size(), ChecksumOf(order.payload)};
    std::string payload = order.payload;
    const milliseconds limit = links.options().timeout;
    for (int r = 1; r < links.size(); ++r) {
      TM_RETURN_IF_ERROR(links.SendTo(r, kOrderTag, Bytes(header), limit));
      if (payload.empty()) continue;
      TM_RETURN_IF_ERROR(links.SendTo(r, kPayloadTag, Bytes(payload), limit));
    }
    return Ok();
  }

  Result<RankOrder> Next() {
    OrderHeader header;
    TM_RETURN_IF_ERROR(links.ReceiveFromFirst(kOrderTag, Bytes(header)));
    if (header.magic != kMagic || header.bytes > kPayloadMax) {
      return Corrupt("rank 0 sent an invalid order");
    }
    RankOrder order;
    order.payload.resize(header.bytes);
    if (header.bytes > 0) {
      TM_RETURN_IF_ERROR(links.ReceiveFromFirst(kPayloadTag, Bytes(order.payload)));
    }
    if (ChecksumOf(order.payload) != header.checksum) {
      return Corrupt("an order of rank 0 arrived damaged (checksum mismatch)");
    }
    order.kind = static_cast<RankOrder::Kind>(header.kind);
    order.number = header.number;
    order.step = header.step;
    return order;
  }

  // Every rank comes here; rank 0 leaves when all have. With a fingerprint: they must be equal.
  Status Meet(uint64_t fingerprint, milliseconds limit) {
    CheckIn own;
    own.count = check_ins_++;
    own.fingerprint = fingerprint;
    if (links.rank() > 0) return links.SendToFirst(kCheckInTag, Bytes(own));
    for (int r = 1; r < links.size(); ++r) {
      CheckIn other;
      TM_RETURN_IF_ERROR(links.ReceiveFrom(r, kCheckInTag, Bytes(other), limit));
      TM_RETURN_IF_ERROR(Compare(r, own, other));
    }
    return Ok();
  }

  void Fail(const Status& status) {
    CheckIn own;
    own.code = static_cast<uint64_t>(status.code());
    std::strncpy(own.text, status.message().c_str(), sizeof own.text - 1);
    (void)links.SendToFirst(kCheckInTag, Bytes(own));  // who is to be told may be what failed
  }

  RankLinks links;

 private:
  // On rank 0: what rank `r` said, beside what it should have.
  Status Compare(int r, const CheckIn& own, CheckIn& other) {
    const std::string name = links.Name(r);
    if (other.magic != kMagic) return Corrupt(name + " sent an invalid message");
    if (other.code != 0) {
      other.text[sizeof other.text - 1] = 0;
      links.NoteLost();
      return Status(static_cast<Code>(other.code), name + ": " + other.text);
    }
    if (other.count != own.count) {
      return Corrupt(name + " is at sum " + std::to_string(other.count) + " where rank 0 is at " +
                     std::to_string(own.count));
    }
    if (other.fingerprint != own.fingerprint) {
      return Corrupt(name +
                     " has different weights than rank 0: ranks must read the same files and run "
                     "on the same kind of machine");
    }
    return Ok();
  }

  uint64_t check_ins_ = 0;
};

bool RankGroup::Available() {
  return true;
}

Result<std::unique_ptr<RankGroup>> RankGroup::Gather(const RankGroupOptions& options) {
  using Made = std::unique_ptr<RankGroup>;
  TM_ASSIGN_OR_RETURN(const MeetingPlace place, ParseMeeting(options.meeting));
  return CatchTorch<Made>("gathering the ranks", [&]() -> Result<Made> {
    TM_ASSIGN_OR_RETURN(const StorePtr store,
                        OpenRankStore(place, true, options.join_limit, options.secret));
    std::vector<RankMember> others = CallTheRoll(store, options);
    const int size = 1 + static_cast<int>(others.size());
    auto impl = std::make_unique<Impl>(options, store, 0, size);
    if (size > 1) {
      TM_RETURN_IF_ERROR(impl->links.Connect(place, std::move(others)));
      TM_RETURN_IF_ERROR(impl->links.Prove());
    }
    return Made(new RankGroup(std::move(impl)));
  });
}

Result<std::unique_ptr<RankGroup>> RankGroup::Join(const RankGroupOptions& options) {
  using Made = std::unique_ptr<RankGroup>;
  TM_ASSIGN_OR_RETURN(const MeetingPlace place, ParseMeeting(options.meeting));
  try {
    TM_ASSIGN_OR_RETURN(const StorePtr store,
                        OpenRankStore(place, false, options.join_limit, options.secret));
    TM_ASSIGN_OR_RETURN(const RankPlace own, AnswerTheRoll(store, options));
    auto impl = std::make_unique<Impl>(options, store, own.rank, own.size);
    TM_RETURN_IF_ERROR(impl->links.Connect(place, {}));
    TM_RETURN_IF_ERROR(impl->links.Prove());
    return Made(new RankGroup(std::move(impl)));
  } catch (const std::exception& error) {
    return Unavailable("rank 0 at " + options.meeting + ": " + FirstLine(error.what()));
  }
}

RankGroup::RankGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RankGroup::~RankGroup() = default;

int RankGroup::rank() const {
  return impl_->links.rank();
}
int RankGroup::size() const {
  return impl_->links.size();
}
int RankGroup::lost() const {
  return impl_->links.lost();
}
Status RankGroup::Send(const RankOrder& order) {
  return impl_->Send(order);
}
Result<RankOrder> RankGroup::Next() {
  return impl_->Next();
}
Status RankGroup::Sum(std::vector<Tensor> tensors) {
  TM_RETURN_IF_ERROR(impl_->Meet(0, impl_->links.options().timeout));
  for (Tensor& tensor : tensors) {
    if (tensor.numel() > 0) TM_RETURN_IF_ERROR(impl_->links.Sum(tensor));
  }
  return Ok();
}
Result<double> RankGroup::FromFirst(double number) {
  Tensor tensor = at::full({1}, number, at::kDouble);
  TM_RETURN_IF_ERROR(impl_->links.Broadcast(tensor));
  return tensor.item<double>();
}
Status RankGroup::Agree(uint64_t fingerprint) {
  return impl_->Meet(fingerprint, impl_->links.options().join_limit);
}
void RankGroup::Fail(const Status& status) {
  impl_->Fail(status);
}

}  // namespace tidemill

#endif
