"""The Lua scripts of budgets in Valkey.

A counter is a hash. ``S`` is the amount spent by all processes and ``H`` the amount held; ``s:NAME``,
``h:NAME`` and ``n:NAME`` are a process's part of both and the number of its last call; ``seeded`` marks that
the durable record is included. Sums change by additions of strings, because a number of Lua has 53 bits.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LATE", "PUBLISH", "RESERVE", "SEED", "UNSEEDED"]

#: Answers of ``RESERVE`` in the place of a counter: one has to be seeded; the call came after a later one.
UNSEEDED: Final = -1
LATE: Final = -2

_PUT: Final = """
local function put(key, field, sum, value)
  local old = redis.call('HGET', key, field) or '0'
  if old == value then return end
  redis.call('HSET', key, field, value)
  if value ~= '0' then redis.call('HINCRBY', key, sum, value) end
  if old ~= '0' then redis.call('HINCRBY', key, sum, '-' .. old) end
end
local function raise(key, writer, value)
  local old = redis.call('HGET', key, 's:' .. writer) or '0'
  if #value > #old or (#value == #old and value > old) then put(key, 's:' .. writer, 'S', value) end
end
local function keep(key, milliseconds)
  if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, milliseconds) end
end
"""

#: KEYS: counters. ARGV: the number of this call; then of each counter: writer, spent and held by it,
#: milliseconds. Sets a process's part; a call that comes late changes no later one.
PUBLISH: Final = (
    _PUT
    + """
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 4 + 2
  local writer = ARGV[at]
  raise(key, writer, ARGV[at + 1])
  if tonumber(redis.call('HGET', key, 'n:' .. writer) or '0') < tonumber(ARGV[1]) then
    redis.call('HSET', key, 'n:' .. writer, ARGV[1])
    put(key, 'h:' .. writer, 'H', ARGV[at + 2])
  end
  keep(key, ARGV[at + 3])
end
return 1
"""
)

#: KEYS: one counter. ARGV: milliseconds; then writer and amount of each process in the durable record.
SEED: Final = (
    _PUT
    + """
for i = 2, #ARGV, 2 do raise(KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], 'seeded', '1')
keep(KEYS[1], ARGV[1])
return 1
"""
)

#: KEYS: counters. ARGV: the number of this call; then of each counter: writer, spent and held by it,
#: milliseconds, the amount, the limit, the least that was spent as far as the process knows, and whether
#: it has to be seeded. Returns the place of the counter without room, 0, or one of the answers above;
#: then S and H of each counter.
RESERVE: Final = (
    _PUT
    + """
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 8 + 2
  if ARGV[at + 7] == '1' and redis.call('HEXISTS', key, 'seeded') == 0 then return {-1} end
  if tonumber(redis.call('HGET', key, 'n:' .. ARGV[at]) or '0') >= tonumber(ARGV[1]) then return {-2} end
end
local refused = 0
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 8 + 2
  raise(key, ARGV[at], ARGV[at + 1])
  put(key, 'h:' .. ARGV[at], 'H', ARGV[at + 2])
  redis.call('HSET', key, 'n:' .. ARGV[at], ARGV[1])
  keep(key, ARGV[at + 3])
  local spent = math.max(tonumber(redis.call('HGET', key, 'S') or '0'), tonumber(ARGV[at + 6]))
  local held = tonumber(redis.call('HGET', key, 'H') or '0')
  if refused == 0 and spent + held + tonumber(ARGV[at + 4]) > tonumber(ARGV[at + 5]) then refused = i end
end
local found = {refused}
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 8 + 2
  if refused == 0 then
    redis.call('HINCRBY', key, 'h:' .. ARGV[at], ARGV[at + 4])
    redis.call('HINCRBY', key, 'H', ARGV[at + 4])
  end
  found[#found + 1] = redis.call('HGET', key, 'S') or '0'
  found[#found + 1] = redis.call('HGET', key, 'H') or '0'
end
return found
"""
)
