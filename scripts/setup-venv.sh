#!/bin/sh
# Creates the virtual environment $1 and installs the locked requirements $2 and this project into it.
# Uses uv where it is present; otherwise the standard library's venv and pip are enough.
set -eu
venv=$1
lock=$2

# The lock is complete, so nothing is resolved again (--no-deps): pip 23.2 takes the newest release of a package that is locked
# with an extra and required without it, and then refuses it, because that release has no hash here.

# The first start would compile every module and the patterns of the default policy: seconds, spent here instead.
# Where they cannot be kept (a read-only home), the first start does it after all.
warm() {
    PYTHONDONTWRITEBYTECODE= "$venv/bin/python" -c '
import pointsman.gateway.build, pointsman.gateway.serve
from pointsman.factory import build_engine, default_policy
build_engine(default_policy())'
}

echo "setup: installs the packages of $lock into $venv and compiles them, which takes a minute or two" >&2
if command -v uv >/dev/null 2>&1; then
    [ -x "$venv/bin/python" ] || uv venv -q ${PYTHON:+--python "$PYTHON"} "$venv"
    uv pip install -q --python "$venv/bin/python" --require-hashes --no-deps -r "$lock"
    uv pip install -q --python "$venv/bin/python" --no-deps -e .
    warm
    exit 0
fi

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "setup: Python 3.11 or newer is needed; found $("$python" -V). Name another with PYTHON=..." >&2
    exit 1
}
if [ ! -x "$venv/bin/pip" ]; then
    # Debian ships venv apart from python3: install it when we may, say how when we may not.
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            apt-get update -qq && apt-get install -y -qq python3-venv
        else
            echo "setup: python3-venv is missing; run: sudo apt-get install python3-venv" >&2
            exit 1
        fi
    fi
    "$python" -m venv "$venv"
fi
"$venv/bin/pip" install -q --disable-pip-version-check --require-hashes --no-deps -r "$lock"
"$venv/bin/pip" install -q --disable-pip-version-check --no-deps -e .
warm
