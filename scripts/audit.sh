#!/bin/sh
# Looks up known vulnerabilities (OSV) in the locked requirements $2, with the tools of the environment $1.
# Status 1 when there are some. Where no advisory source can be reached it says so and ends with status 0.
set -u
found=$("$1/bin/pip-audit" -r "$2" --disable-pip --require-hashes --progress-spinner off -s osv \
    ${OSV_URL:+--osv-url "$OSV_URL"} --timeout 10 2>&1)
status=$?
case "$status $found" in
    0*) echo "$found" ;;
    *"known vulnerabilit"*) echo "$found"; exit 1 ;;
    *ConnectionError* | *ConnectTimeout* | *ReadTimeout* | *ServiceError*)
        echo "audit: left out, no advisory source can be reached" ;;
    *) echo "$found"; exit "$status" ;;
esac
