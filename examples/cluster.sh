#!/usr/bin/env bash
# A run on many processes on one machine: Redis, a learner, two rollout, two tool and one reward worker. While they
# train, one worker of each role, also the learner, is killed and started again. Redis uses TLS and has a user for each
# role, and the learner signs the run sheet (docs/operations.md, "Security"). Ends with the same summary as
# examples/demo.sh, and fails if anything was lost. About 4 minutes on two cores.
#
#   examples/cluster.sh [SEED]     writes to build/cluster and runs/cluster-SEED
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=build/release/tidemill
seed=${1:-1}
out=build/cluster
run=cluster-$seed
minutes=${TIDEMILL_CLUSTER_MINUTES:-1.2}  # of reinforcement learning after the last kill

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

declare -A pids=()
stop() {
  for name in "${!pids[@]}"; do kill "${pids[$name]}" 2>/dev/null || true; done
  wait 2>/dev/null || true
}
trap stop EXIT

rm -rf "$out" "runs/$run"
mkdir -p "$out"
say "1. Tasks, and a policy warmed up on a few demonstrations"
"$tidemill" tasks generate --family cfunc --count 2000 --seed "$((seed * 10 + 1))" --out "$out/demonstrated.jsonl" --with-solutions "$out/demonstrations.jsonl"
"$tidemill" tasks generate --family cfunc --count 4000 --seed "$((seed * 10 + 2))" --out "$out/train.jsonl"
"$tidemill" tasks generate --family cfunc --count 100 --seed "$((seed * 10 + 3))" --split heldout --out "$out/eval.jsonl"
"$tidemill" tasks model --family cfunc --out "$out/shape"
"$tidemill" warmup "$out/demonstrations.jsonl" --from-config "$out/shape" --out "$out/warm" --seed "$seed" \
  --batch-tokens 2048 --evaluate-every 100 --patience 4 --max-steps 1000 --minutes 4

say "2. Redis and six workers"
"$tidemill" bus key "$out/sign.key"
"$tidemill" bus acl --run "$run" --out "$out/acl"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=cluster \
  -addext subjectAltName=IP:127.0.0.1 -keyout "$out/tls.key" -out "$out/tls.pem" 2>"$out/openssl.log"
# bus ROLE: the URL of the bus for this role.
bus() { echo "rediss://$1:$(cat "$out/acl/$1.password")@127.0.0.1:$port/0?ca=$out/tls.pem"; }
port=
for attempt in 1 2 3 4 5; do
  candidate=$((20000 + RANDOM % 20000))
  redis-server --port 0 --tls-port "$candidate" --tls-cert-file "$PWD/$out/tls.pem" --tls-key-file "$PWD/$out/tls.key" \
    --tls-ca-cert-file "$PWD/$out/tls.pem" --tls-auth-clients no --aclfile "$PWD/$out/acl/users.acl" --bind 127.0.0.1 \
    --dir "$out" --appendonly yes --save "" >"$out/redis.log" 2>&1 &
  pids[redis]=$!
  for wait in 1 2 3 4 5 6 7 8 9 10; do
    if REDISCLI_AUTH=$(cat "$out/acl/watch.password") redis-cli --tls --cacert "$out/tls.pem" --user watch \
      -p "$candidate" ping 2>/dev/null | grep -q PONG; then port=$candidate; break 2; fi
    kill -0 "${pids[redis]}" 2>/dev/null || break
    sleep 0.2
  done
done
[ -n "$port" ] || { echo "redis-server did not start, see $out/redis.log" >&2; exit 1; }
export TIDEMILL_RUN=$run TIDEMILL_VERIFY_KEY=$out/sign.key.pub
echo "  --bus rediss://ROLE:PASSWORD@127.0.0.1:$port/0?ca=$out/tls.pem --run $run"

# start NAME ROLE [ARGUMENTS]: a worker in the background, its output in build/cluster/NAME.log.
# The same command starts and resumes the run; its minutes count from its own start.
start() {
  local name=$1 role=$2
  shift 2
  TIDEMILL_BUS=$(bus "$role") "$tidemill" worker "$role" "$@" >>"$out/$name.out" 2>>"$out/$name.log" &
  pids[$name]=$!
  echo "  $name: process $!"
}
start_learner() {
  start learner learner examples/demo.toml --resume --sign-key "$out/sign.key" --set run.seed="$seed" --set run.steps=100000 --set run.minutes="$1" \
    --set model.path="$out/warm" --set tasks.train="$out/train.jsonl" --set tasks.eval="$out/eval.jsonl" \
    --set eval.samples=2 --set eval.greedy=false --set eval.also_max_turns=0 --set rollout.groups_per_step=8 \
    --set learner.checkpoint_every_steps=3 --set bus.lease=5s
}
start_learner 5
for name in rollout-1 rollout-2 tools-1 tools-2 reward-1; do start "$name" "${name%-*}"; done

dashboard=
while [ -z "$dashboard" ]; do
  dashboard=$(grep -ao 'dashboard: http[^ ]*' "$out/learner.log" | head -1 || true)
  kill -0 "${pids[learner]}" 2>/dev/null || { echo "the learner exited early, see $out/learner.log" >&2; exit 1; }
  sleep 0.2
done
echo "  $dashboard (the Fleet view shows every process)"

steps() {
  local count
  count=$(grep -c '"kind":"step"' "runs/$run/metrics.jsonl" 2>/dev/null || true)
  echo "${count:-0}"
}
wait_for_steps() {
  while [ "$(steps)" -lt "$1" ]; do
    kill -0 "${pids[learner]}" 2>/dev/null || { echo "the learner exited early, see $out/learner.log" >&2; exit 1; }
    sleep 0.5
  done
}

say "3. Training; one worker of each role is killed"
wait_for_steps 5
for name in rollout-1 tools-1 reward-1 learner; do
  kill -KILL "${pids[$name]}"
  wait "${pids[$name]}" 2>/dev/null || true
  echo "  killed $name after $(steps) steps; starting it again"
  if [ "$name" = learner ]; then start_learner "$minutes"; else start "$name" "${name%-*}"; fi
  wait_for_steps "$(($(steps) + 3))"
done
TIDEMILL_BUS=$(bus watch) "$tidemill" status --run "$run"
wait "${pids[learner]}" || { echo "the learner failed, see $out/learner.log" >&2; exit 1; }
unset "pids[learner]"

say "4. Result"
cat "$out/learner.out"
grep -q '"lost": 0,' "runs/$run/summary.json" || { echo "something was lost, see runs/$run/summary.json" >&2; exit 1; }
echo "  $tidemill runs show $run                 the summary again"
echo "  $tidemill runs episodes $run --worst 5   transcripts"
