#!/bin/sh
# Install a wheel in an empty environment outside of the repository, and use it on a real Kafka; print the seconds.
# Usage: try_wheel.sh WHEEL [spark]. Needs Python 3.11+ (PYTHON) and Java 17+.
set -eu
wheel=$(realpath "$1")
extra=${2:-}
folder=$(mktemp -d)
trap 'cd "$folder"; venv/bin/kafkaform dev down --wipe > /dev/null 2>&1 || true; rm -rf "$folder"' EXIT
cd "$folder"
unset PYTHONPATH
export KAFKAFORM_ENVIRONMENT=dev CI=true

step() { # step EXIT_CODE COMMAND...
    expected=$1
    shift
    begin=$(date +%s)
    code=0
    "$@" > output 2>&1 || code=$?
    if [ "$code" != "$expected" ]; then
        printf '%s exits %s, not %s:\n' "$*" "$code" "$expected" >&2
        cat output >&2
        exit 1
    fi
    printf '%3d s  %s\n' $(($(date +%s) - begin)) "$*"
}

step 0 "${PYTHON:-python3}" -m venv venv
step 0 venv/bin/python -m pip --disable-pip-version-check install "${wheel}[local${extra:+,$extra}]"
PATH=$folder/venv/bin:$PATH
step 0 kafkaform init
step 0 kafkaform dev up
KAFKAFORM_BOOTSTRAP_SERVER=$(kafkaform dev up 2> /dev/null)
export KAFKAFORM_BOOTSTRAP_SERVER
step 2 kafkaform plan --detailed-exitcode --out plan.json
step 0 kafkaform apply plan.json --auto-approve
step 0 kafkaform plan --detailed-exitcode
step 0 kafkaform drift
step 0 kafkaform doctor
if [ "$extra" = spark ]; then
    step 0 python -c 'import os, confluent_kafka
producer = confluent_kafka.Producer({"bootstrap.servers": os.environ["KAFKAFORM_BOOTSTRAP_SERVER"]})
for number in range(5000):
    producer.produce("example.orders.v1", b"value", str(number))
producer.flush()'
    step 0 kafkaform skew example.orders.v1
else
    step 1 kafkaform skew example.orders.v1
    grep -qF "pip install 'kafkaform[spark]'" output
fi
step 0 kafkaform dev down
