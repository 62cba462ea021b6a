#include "environments/episode_terms.h"

#include "core/random.h"
#include "rollout/episode.h"

namespace tidemill {

EpisodeTerms EnvironmentTermsOf(const AgentJob& job) {
  const v1::GroupLease& lease = job.group->lease;
  const v1::Sampling& sampling = lease.sampling();
  EpisodeTerms terms;
  SamplingParams& how = terms.sampling.sampling;
  how.temperature = static_cast<float>(sampling.temperature());
  if (sampling.top_p() > 0) how.top_p = static_cast<float>(sampling.top_p());
  how.top_k = static_cast<int32_t>(sampling.top_k());
  how.min_p = static_cast<float>(sampling.min_p());
  terms.sampling.max_new_tokens = static_cast<int32_t>(sampling.max_turn_tokens());
  terms.sampling.seed = MixHash(lease.seed(), job.member);
  terms.max_turns = lease.max_turns();
  return terms;
}

v1::EpisodeEnd EndedBy(const EpisodeSession& session) {
  if (session.out_of_turns) return v1::EPISODE_END_MAX_TURNS;
  if (session.out_of_tokens) return v1::EPISODE_END_MAX_TOKENS;
  if (session.out_of_context) return v1::EPISODE_END_CONTEXT;
  return v1::EPISODE_END_SUBMITTED;
}

}  // namespace tidemill
