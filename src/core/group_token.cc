#include "core/group_token.h"

#include "core/secret.h"

namespace tidemill {
namespace {

std::string TokenOf(std::string_view secret, const v1::GroupLease& what) {
  return TokenFor(secret, "group " + what.SerializeAsString());
}

}  // namespace

std::string GroupToken(std::string_view secret, const v1::GroupLease& lease) {
  v1::GroupLease what;
  what.set_group(lease.group());
  what.mutable_task()->set_id(lease.task().id());
  what.set_members(lease.members());
  what.set_purpose(lease.purpose());
  what.set_eval_name(lease.eval_name());
  *what.mutable_sampling() = lease.sampling();
  return TokenOf(secret, what);
}

std::string GroupToken(std::string_view secret, const v1::Trajectory& trajectory) {
  v1::GroupLease what;
  what.set_group(trajectory.id().group());
  what.mutable_task()->set_id(trajectory.id().task());
  what.set_members(trajectory.group_members());
  what.set_purpose(trajectory.purpose());
  what.set_eval_name(trajectory.eval_name());
  *what.mutable_sampling() = trajectory.sampling();
  return TokenOf(secret, what);
}

}  // namespace tidemill
