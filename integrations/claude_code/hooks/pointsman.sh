#!/bin/sh
# Passes an event of Claude Code on to Pointsman. Where there is none, Claude Code goes on without; it is told so once,
# when the session starts. POINTSMAN_CONFIG names a configuration by which every part is decided.
if command -v pointsman >/dev/null 2>&1; then
    [ "${1:-}" = start ] && exit 0
    exec pointsman hook claude-code ${POINTSMAN_CONFIG:+--config "$POINTSMAN_CONFIG"}
fi
cat >/dev/null 2>&1
[ "${1:-}" = start ] || exit 0
echo '{"systemMessage": "Pointsman gives no hints: the command pointsman is not on PATH (pip install pointsman)"}'
