// rank_group.cc for a libtorch without Gloo.
#include "learner/torch/rank_group.h"

#ifndef USE_C10D_GLOO

namespace tidemill {

// Built without Gloo: there is never a group.
class RankGroup::Impl {};

namespace {
const char kWithout[] =
    "this program was built without c10d's Gloo: install libgloo-dev and build it again, or set "
    "learner.ranks = 1";
}  // namespace

bool RankGroup::Available() {
  return false;
}
Result<std::unique_ptr<RankGroup>> RankGroup::Gather(const RankGroupOptions&) {
  return Invalid(kWithout);
}
Result<std::unique_ptr<RankGroup>> RankGroup::Join(const RankGroupOptions&) {
  return Invalid(kWithout);
}
RankGroup::RankGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RankGroup::~RankGroup() = default;
int RankGroup::rank() const {
  return 0;
}
int RankGroup::size() const {
  return 1;
}
int RankGroup::lost() const {
  return 0;
}
Status RankGroup::Send(const RankOrder&) {
  return Internal(kWithout);
}
Result<RankOrder> RankGroup::Next() {
  return Internal(kWithout);
}
Status RankGroup::Sum(std::vector<at::Tensor>) {
  return Internal(kWithout);
}
Result<double> RankGroup::FromFirst(double) {
  return Internal(kWithout);
}
Status RankGroup::Agree(uint64_t) {
  return Internal(kWithout);
}
void RankGroup::Fail(const Status&) {}

}  // namespace tidemill

#endif
