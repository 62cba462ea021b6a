#!/usr/bin/env bash
# A run on many processes on one machine: a broker, a learner, two rollout, two tool and one reward worker. While they
# train, one worker of each role, also the learner, is killed and started again. The broker uses TLS and has a user for
# each role, and the learner signs the run sheet (docs/operations.md, "Security"). Ends with the same summary as
# examples/demo.sh, and fails if anything was lost. About 4 minutes on two cores.
#
#   [BUS=redis|rabbit] examples/cluster.sh [SEED]     writes to build/cluster and runs/cluster-SEED
set -euo pipefail
cd "$(dirname "$0")/.."
tidemill=build/release/tidemill
seed=${1:-1}
out=build/cluster
run=cluster-$seed
kind=${BUS:-redis}
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

say "2. A broker and six workers"
"$tidemill" bus key "$out/sign.key"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=cluster \
  -addext subjectAltName=IP:127.0.0.1 -keyout "$out/tls.key" -out "$out/tls.pem" 2>"$out/openssl.log"

# A broker that ends with this script, on a free port. bus ROLE: its URL for this role.
start_redis() {
  "$tidemill" bus acl --run "$run" --out "$out/acl"
  bus() { echo "rediss://$1:$(cat "$out/acl/$1.password")@127.0.0.1:$port/0?ca=$out/tls.pem"; }
  for attempt in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 20000))
    redis-server --port 0 --tls-port "$port" --tls-cert-file "$PWD/$out/tls.pem" --tls-key-file "$PWD/$out/tls.key" \
      --tls-ca-cert-file "$PWD/$out/tls.pem" --tls-auth-clients no --aclfile "$PWD/$out/acl/users.acl" --bind 127.0.0.1 \
      --dir "$out" --appendonly yes --save "" >"$out/broker.log" 2>&1 &
    pids[broker]=$!
    for wait in 1 2 3 4 5 6 7 8 9 10; do
      if REDISCLI_AUTH=$(cat "$out/acl/watch.password") redis-cli --tls --cacert "$out/tls.pem" --user watch \
        -p "$port" ping 2>/dev/null | grep -q PONG; then return 0; fi
      kill -0 "${pids[broker]}" 2>/dev/null || break
      sleep 0.2
    done
  done
  return 1
}
start_rabbit() {
  "$tidemill" bus rabbitmq-users --run "$run" --out "$out/users"
  bus() { echo "amqps://$run.$1:$(cat "$out/users/$1.password")@127.0.0.1:$port/$run?ca=$out/tls.pem"; }
  local home=$PWD/$out/rabbitmq
  mkdir -p "$home"
  echo '[].' >"$home/plugins"
  for attempt in 1 2 3; do
    port=$((20000 + RANDOM % 10000))
    printf '%s\n' "listeners.tcp = none" "listeners.ssl.1 = 127.0.0.1:$port" "ssl_options.certfile = $PWD/$out/tls.pem" \
      "ssl_options.keyfile = $PWD/$out/tls.key" "load_definitions = $PWD/$out/users/definitions.json" \
      >"$home/rabbitmq.conf"
    # With an epmd, a cookie and a folder of its own, so that it meets no other broker of this machine.
    export ERL_EPMD_PORT=$((port + 10000)) ERL_EPMD_ADDRESS=127.0.0.1
    epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 >"$out/epmd.log" 2>&1 &
    pids[epmd]=$!
    env HOME="$home" ERL_LIBS="$(echo /usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins)" RABBITMQ_BASE="$home" \
      RABBITMQ_HOME="$(echo /usr/lib/rabbitmq/lib/rabbitmq_server-*)" RABBITMQ_NODENAME="cluster$port@localhost" \
      RABBITMQ_DIST_PORT=$((port + 20000)) RABBITMQ_MNESIA_BASE="$home/data" RABBITMQ_LOG_BASE="$home/logs" \
      RABBITMQ_LOGS=- RABBITMQ_ENABLED_PLUGINS_FILE="$home/plugins" RABBITMQ_CONF_ENV_FILE="$home/none" \
      RABBITMQ_CONFIG_FILE="$home/rabbitmq" RABBITMQ_PID_FILE="$home/pid" RABBITMQ_GENERATED_CONFIG_DIR="$home/conf" \
      erl +sbwt none -noshell -noinput -s rabbit boot -boot start_sasl -syslog logger '[]' -syslog \
      syslog_error_logger false -kernel inet_dist_use_interface '{127,0,0,1}' >"$out/broker.log" 2>&1 &
    pids[broker]=$!
    for ((wait = 0; wait < 300; ++wait)); do
      if grep -q "Server startup complete" "$out/broker.log"; then return 0; fi
      kill -0 "${pids[broker]}" 2>/dev/null || break
      sleep 0.2
    done
    kill "${pids[epmd]}" 2>/dev/null || true
  done
  return 1
}
"start_$kind" || { echo "the broker ($kind) did not start, see $out/broker.log" >&2; exit 1; }
export TIDEMILL_RUN=$run TIDEMILL_VERIFY_KEY=$out/sign.key.pub
echo "  the broker ($kind) listens on 127.0.0.1:$port; run $run"

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
