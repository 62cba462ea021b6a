#include "config/credit_keys.h"

namespace tidemill {

void BindCreditAndRanks(RunConfig& c, Binder& b) {
  auto& l = c.learner;
  b.Add(
      "learner.credit", &l.credit,
      {.doc = "episode: every turn gets the episode's advantage; turn, state: add the turn's "
              "return compared with the group's turns of the same number, or in the same workspace",
       .choices = {"episode", "turn", "state"}});
  b.Add("learner.turn_weight", &l.turn_weight,
        {.doc = "Weight of the per-turn comparison", .min = 0, .max = 100});
  b.Add("learner.turn_discount", &l.turn_discount,
        {.doc = "Discount of later turns' rewards in a turn's return", .min = 0, .max = 1});
  b.Add(
      "learner.overlong_buffer", &l.overlong_buffer,
      {.doc = "Length penalty: number of tokens before the limit where it starts (DAPO); 0: off"});
  b.Add("learner.overlong_weight", &l.overlong_weight,
        {.doc = "Length penalty of an answer at the limit", .min = 0, .max = 1000});
  b.Add("learner.ranks", &l.ranks,
        {.doc = "Number of learner processes, rank 0 included", .min = 1, .max = 64});
  b.Add("learner.rank_address", &l.rank_address,
        {.doc = "HOST:PORT where rank 0 listens for `tidemill rank --join HOST:PORT`; empty: rank "
                "0 starts the other ranks itself"});
  b.Add("learner.rank_secret_file", &l.rank_secret_file,
        {.doc = "File with the secret of the ranks, created if missing; only ranks with a copy of "
                "it can join at learner.rank_address"});
  b.Add("learner.rank_timeout", &l.rank_timeout,
        {.doc = "How long rank 0 waits for a rank's share of a step before it counts as hung",
         .min = 100,
         .max = 86400000});
  b.Add("learner.rank_join", &l.rank_join,
        {.doc = "How long rank 0 waits for the other ranks; then it starts with those present",
         .min = 1000,
         .max = 86400000});
}

}  // namespace tidemill
