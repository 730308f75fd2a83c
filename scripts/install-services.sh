#!/bin/sh
# Installs Debian's PostgreSQL, and Valkey or Redis, where none is found: the tests start them (tests/support/engines.py); and
# Prometheus, whose promtool reads the alerts. Where that cannot be, says so: the tests that need one are skipped.
set -eu
missing=""
if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    missing="postgresql"
fi
if ! command -v valkey-server >/dev/null && ! command -v redis-server >/dev/null; then
    missing="$missing redis-server"
fi
if ! command -v promtool >/dev/null; then
    missing="$missing prometheus"
fi
if [ -z "$missing" ]; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # The packages would each start a server of the machine: the tests' own are enough.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    apt-get update -qq && apt-get install -qq -y --no-install-recommends $missing && exit 0
fi
echo "not installed, and cannot be installed here:$missing; as root: apt-get install $missing" >&2
