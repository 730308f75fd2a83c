#!/bin/sh
# Installs Debian's Chromium where none is found. Where that cannot be, says so: the tests of tests/browser are skipped.
set -eu
for name in "${POINTSMAN_CHROMIUM:-}" chromium chromium-browser google-chrome-stable google-chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core && exit 0
fi
echo "there is no Chromium, and it cannot be installed here: set POINTSMAN_CHROMIUM, or as root: apt-get install chromium" >&2
