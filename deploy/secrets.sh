#!/bin/sh
# Usage: deploy/secrets.sh FOLDER RUN [HOST]: writes to FOLDER the Redis users of a run, a URL for each role, a
# certificate for Redis at HOST (default: redis), the key that signs the run sheet and the token of the metrics.
# compose.yaml reads deploy/secrets. For Kubernetes: kubectl -n tidemill create secret generic tidemill-bus --from-file=FOLDER
set -eu
folder=$1 run=$2 host=${3:-redis}
umask 077
"${TIDEMILL:-tidemill}" bus acl --run "$run" --out "$folder"
"${TIDEMILL:-tidemill}" bus key "$folder/sign.key"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj "/CN=$host" \
  -addext "subjectAltName=DNS:$host" -keyout "$folder/tls.key" -out "$folder/tls.pem"
[ -e "$folder/metrics-token" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$folder/metrics-token"
chmod 644 "$folder/tls.pem" "$folder/sign.key.pub"
# The user of the image is 10001.
chown 10001 "$folder/sign.key" "$folder/metrics-token" || echo "give sign.key and metrics-token in $folder to user 10001" >&2
for role in learner rollout tools reward watch; do
  url="rediss://$role:$(cat "$folder/$role.password")@$host:6379/0?ca=/etc/tidemill/bus/tls.pem"
  printf '%s' "$url" >"$folder/$role.url"
  printf 'TIDEMILL_BUS=%s\n' "$url" >"$folder/$role.env"
done
