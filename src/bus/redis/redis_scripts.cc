#include "bus/redis/redis_scripts.h"

#include <algorithm>

namespace tidemill {
namespace {

// Shared by the functions: topics, entries, and the ways an entry leaves a lease. An entry
// of a stream is one delivery; delivering again means a new entry with the count `n` one higher and
// the message's first id as `i`, so an earlier holder has the id of an entry that is gone.
constexpr const char* kCommon = R"lua(
local prefix, me = ARGV[1], ARGV[2]
local group = 'g'
local known = {}
local server_ms

local function now_ms()
  if not server_ms then
    local t = redis.call('TIME')
    server_ms = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return server_ms
end

-- Made where it is missing, with the time: who knew the stream before sees that its messages are lost.
local function make_group(base)
  redis.call('XGROUP', 'CREATE', base .. ':stream', group, '0', 'MKSTREAM')
  redis.call('HSET', base .. ':state', 'made', now_ms())
end

-- What somebody wrote there need not be a count.
local function count_of(text, most)
  local n = tonumber(text)
  if not n or n ~= math.floor(n) or n < 0 or n > most then return 0 end
  return n
end

-- A topic by name with its options and its size, or false.
local function topic(name)
  local t = known[name]
  if t ~= nil then return t end
  local options = redis.call('HGET', listed_in(prefix, name), name)
  if not options then
    known[name] = false
    return false
  end
  local capacity, lease, deliveries = string.match(options, '^(%d+) (%d+) (%d+)$')
  if not capacity then
    known[name] = false
    return false
  end
  local base = prefix .. 't:' .. name
  t = {name = name, stream = base .. ':stream', state = base .. ':state',
       delayed = base .. ':delayed', sweep = base .. ':sweep', immortal = name == 'dead',
       capacity = tonumber(capacity), lease = lease, deliveries = tonumber(deliveries)}
  t.size = redis.call('XLEN', t.stream) + redis.call('ZCARD', t.delayed)
  t.owed = count_of(redis.call('HGET', t.state, 'owed'), 2 * t.capacity)
  known[name] = t
  return t
end

-- A message names the key of its body; whoever wrote it must not have us remove another key.
local function is_body(key)
  local bodies = prefix .. 'body:'
  return key ~= nil and string.sub(key, 1, #bodies) == bodies
end

local function fields_of(list)
  local f = {}
  for i = 1, #list, 2 do f[list[i]] = list[i + 1] end
  return f
end

local function list_of(f)
  local list = {}
  for k, v in pairs(f) do
    list[#list + 1] = k
    list[#list + 1] = tostring(v)
  end
  return list
end

local function add(t, f)
  redis.call('XADD', t.stream, '*', unpack(list_of(f)))
  t.size = t.size + 1
end

local function drop(t, id)
  redis.call('XACK', t.stream, group, id)
  redis.call('XDEL', t.stream, id)
  t.size = t.size - 1
end

-- RedisBus puts larger bodies elsewhere; one that is here nevertheless must not stay as a dead letter.
local inline_max = 4194304

-- To the dead letters. When they are full, the oldest that nobody holds goes, or else this one.
local function bury(t, f, reason)
  redis.call('HINCRBY', t.state, 'dead', 1)
  local d = topic('dead')
  if not d then return end
  if d.size >= d.capacity then
    redis.call('HINCRBY', d.state, 'dropped', 1)
    local groups = redis.pcall('XINFO', 'GROUPS', d.stream)
    local oldest = {}
    if not groups.err and groups[1] then
      local last = fields_of(groups[1])['last-delivered-id']
      oldest = redis.call('XRANGE', d.stream, '(' .. last, '+', 'COUNT', 1)
    end
    if #oldest == 0 then return end
    redis.call('XDEL', d.stream, oldest[1][1])
    d.size = d.size - 1
  end
  add(d, {t = t.name, b = f.b and string.sub(f.b, 1, inline_max), k = f.k, r = reason, c = f.n, w = now_ms()})
end

-- Ends a delivery that counts: the entry `id` with the fields `f` goes back after `delay` ms, or dies.
local function send_back(t, id, f, delay, reason)
  f.n = (tonumber(f.n) or 0) + 1
  f.i = f.i or id
  drop(t, id)
  if not t.immortal and f.n >= t.deliveries then
    bury(t, f, reason .. ' ' .. f.n)
  elseif delay > 0 then
    redis.call('ZADD', t.delayed, now_ms() + delay, cmsgpack.pack(list_of(f)))
    t.size = t.size + 1
  else
    add(t, f)
  end
end
)lua";

constexpr const char* kBatch = R"lua(
local prev, seq, keep = ARGV[3], ARGV[4], ARGV[5]
local epoch = redis.call('GET', prefix .. 'epoch') or ''
local cur = redis.call('GET', KEYS[1])
if cur then
  local s, d = string.match(cur, '^(%d+):(%d+)$')
  if s == seq then return {tonumber(d), 'again', {}, {}, epoch, ''} end
  if tonumber(s) > tonumber(seq) then return {-1, 'again', {}, {}, epoch, ''} end
  if prev ~= '*' and cur ~= prev then return {0, 'gap', {}, {}, epoch, ''} end
end

-- The fields of an entry this client holds, or nil.
local function held(t, id)
  local p = redis.pcall('XPENDING', t.stream, group, id, id, 1)
  if p.err or not p[1] or p[1][2] ~= me then return nil end
  local e = redis.call('XRANGE', t.stream, id, id)
  if not e[1] then
    redis.call('XACK', t.stream, group, id)
    return nil
  end
  return fields_of(e[1][2])
end

local function body_of(body, key)
  if key ~= '' then return {k = key} end
  return {b = body}
end

local function owe(t, change)
  local owed = math.max(0, t.owed + change)
  if owed ~= t.owed then
    t.owed = owed
    redis.call('HSET', t.state, 'owed', owed)
  end
end

local function room(t, count) return t.size + t.owed + count <= t.capacity end

-- With `making_room` the server has no memory left, and only what adds nothing is done.
local function try_add(t, f)
  if making_room then return 'OOM' end
  local reply = redis.pcall('XADD', t.stream, '*', unpack(list_of(f)))
  if type(reply) == 'table' and reply.err then return reply.err end
  t.size = t.size + 1
end

-- Each call: how many arguments it has, and what it does. It returns why it has to wait, if it has to,
-- and at which topic; or nil and what became of it, where that is worth telling.
local calls = {}

-- Writes only what is missing: a worker must be able to join, and so to make room, when the server has no
-- memory left. Who may not list the topic finds it as it is; where it is not, a topic of everybody's is
-- still to come, and another worker's is gone.
local function open(name, options, command)
  local base, list = prefix .. 't:' .. name, listed_in(prefix, name)
  local now = redis.call('HGET', list, name)
  if not now or (command == 'HSET' and now ~= options) then
    local set = redis.pcall(command, list, name, options)
    if type(set) == 'table' and set.err then
      if not string.find(set.err, 'NOPERM', 1, true) and
         not string.find(set.err, 'The user executing the script', 1, true) then
        return set.err, name
      end
      if not now then
        if list == prefix .. 'topics' then return 'the learner has not opened the topic yet', name end
        return 'notopic', name
      end
    end
  end
  local groups = redis.pcall('XINFO', 'GROUPS', base .. ':stream')
  if groups.err or not groups[1] then make_group(base) end
  known[name] = nil
end
calls.o = {2, function(name, options) return open(name, options, 'HSET') end}
calls.O = {2, function(name, options) return open(name, options, 'HSETNX') end}

calls.p = {4, function(name, body, key, force)
  local t = topic(name)
  if not t then return 'notopic', name end
  if force == '' and not room(t, 1) then return 'full', name end
  local err = try_add(t, body_of(body, key))
  if err then return err, name end
end}

calls.q = {5, function(name, inbox, body, key, force)
  local t, i = topic(name), topic(inbox)
  if not t then return 'notopic', name end
  if not i then return 'notopic', inbox end
  if force == '' then
    if not room(i, 1) then return 'full', inbox end
    if not room(t, t == i and 2 or 1) then return 'full', name end
  end
  local err = try_add(t, body_of(body, key))
  if err then return err, name end
  owe(i, 1)
end}

calls.r = {3, function(inbox, body, key)
  local t = topic(inbox)
  if not t then return nil, 'gone' end
  local err = try_add(t, body_of(body, key))
  if err then return err, inbox end
  owe(t, -1)
end}

calls.f = {2, function(inbox, count)
  local t = topic(inbox)
  if t then owe(t, -tonumber(count)) end
end}

calls.a = {3, function(name, id, key)
  local t = topic(name)
  if not t then return nil, 'lost' end
  local p = redis.pcall('XPENDING', t.stream, group, id, id, 1)
  if p.err or not p[1] or p[1][2] ~= me then return nil, 'lost' end
  drop(t, id)
  if is_body(key) then redis.call('UNLINK', key) end
end}

calls.b = {3, function(name, id, delay)
  local t = topic(name)
  local f = t and held(t, id)
  if not f then return nil, 'lost' end
  send_back(t, id, f, tonumber(delay), 'returned after delivery')
end}

calls.u = {2, function(name, id)
  local t = topic(name)
  local f = t and held(t, id)
  if not f then return nil, 'lost' end
  f.i = f.i or id
  drop(t, id)
  add(t, f)
end}

calls.x = {3, function(name, id, reason)
  local t = topic(name)
  local f = t and held(t, id)
  if not f then return nil, 'lost' end
  f.n = (tonumber(f.n) or 0) + 1
  drop(t, id)
  if not t.immortal then
    bury(t, f, reason)
  elseif is_body(f.k) then
    redis.call('UNLINK', f.k)
  end
end}

calls.d = {1, function(name)
  local base = prefix .. 't:' .. name
  redis.call('UNLINK', base .. ':stream', base .. ':state', base .. ':delayed', base .. ':sweep')
  redis.call('HDEL', listed_in(prefix, name), name)
  known[name] = nil
end}

calls.l = {1, function(name)
  local stream = prefix .. 't:' .. name .. ':stream'
  local p = redis.pcall('XPENDING', stream, group, '-', '+', 1, me)
  if not p.err and not p[1] then redis.pcall('XGROUP', 'DELCONSUMER', stream, group, me) end
end}

local done, why, where, notes = 0, '', '', {}
local at = 6
while at <= #ARGV do
  local call = calls[ARGV[at]]
  local n = call[1]
  local fine, wait, about = pcall(call[2], unpack(ARGV, at + 1, at + n))
  if not fine then
    wait, about = type(wait) == 'table' and wait.err or tostring(wait), ARGV[at + 1]
  end
  if wait then
    why, where = wait, about
    break
  end
  done = done + 1
  if about then
    notes[#notes + 1] = done - 1
    notes[#notes + 1] = about
  end
  at = at + n + 1
end
-- Refused only where nothing was done: then the mark of the batch before stays, which is right.
redis.pcall('SET', KEYS[1], seq .. ':' .. done, 'EX', keep)
local sizes = {}
for name, t in pairs(known) do
  if t then
    sizes[#sizes + 1] = name
    sizes[#sizes + 1] = t.size
    sizes[#sizes + 1] = t.owed
  end
end
return {done, why, notes, sizes, epoch, where}
)lua";

constexpr const char* kTick = R"lua(
local name, cursor, quiet_ms, forget = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local epoch = redis.call('GET', prefix .. 'epoch') or ''
local t = topic(name)
if not t then return {0, epoch} end
local pending = redis.pcall('XPENDING', t.stream, group)
if pending.err then make_group(prefix .. 't:' .. name) end

local mine = cursor ~= '0-0'
if not mine then
  -- No memory for the mark: another time.
  local set = redis.pcall('SET', t.sweep, me, 'NX', 'PX', quiet_ms)
  mine = set and not set.err
end
local next_cursor = '0-0'
if mine then
  -- A stream takes no id before its last. An entry with an id of the far future makes it useless; who may
  -- delete it begins it anew.
  local info = redis.pcall('XINFO', 'STREAM', t.stream)
  if not info.err then
    local last = string.match(fields_of(info)['last-generated-id'], '^%d+')
    if tonumber(last) > now_ms() + 86400000 then
      redis.call('UNLINK', t.stream)
      make_group(prefix .. 't:' .. name)
      t.size = redis.call('ZCARD', t.delayed)
    end
  end
  local due = redis.call('ZRANGEBYSCORE', t.delayed, '-inf', now_ms(), 'LIMIT', 0, 100)
  for _, packed in ipairs(due) do
    redis.call('ZREM', t.delayed, packed)
    t.size = t.size - 1
    local read, list = pcall(cmsgpack.unpack, packed)
    if read and type(list) == 'table' and #list > 0 and #list % 2 == 0 then add(t, fields_of(list)) end
  end
  local found = redis.call('XAUTOCLAIM', t.stream, group, me, t.lease, cursor, 'COUNT', 100, 'JUSTID')
  next_cursor = found[1]
  for _, id in ipairs(found[2]) do
    local e = redis.call('XRANGE', t.stream, id, id)
    if e[1] then
      send_back(t, id, fields_of(e[1][2]), 0, 'the lease expired at delivery')
    else
      redis.call('XACK', t.stream, group, id)
    end
  end
  if forget == '1' then
    for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', t.stream, group)) do
      local c = fields_of(flat)
      if c.name ~= me and c.pending == 0 and c.idle > 600000 then
        redis.call('XGROUP', 'DELCONSUMER', t.stream, group, c.name)
      end
    end
  end
end
pending = redis.call('XPENDING', t.stream, group)
local delayed = redis.call('ZCARD', t.delayed)
local dead = count_of(redis.call('HGET', t.state, 'dead'), 2 ^ 53)
return {1, epoch, next_cursor, t.size - delayed, pending[1], delayed, t.owed, dead, t.capacity,
        tonumber(t.lease), t.deliveries, count_of(redis.call('HGET', t.state, 'made'), 2 ^ 53)}
)lua";

}  // namespace

Status CheckRedisRun(std::string_view run) {
  const bool printable = std::all_of(run.begin(), run.end(), [](unsigned char c) {
    return c > 0x20 && c < 0x7f && c != '{' && c != '}' && c != '*' && c != '?' && c != '[' &&
           c != '\\';
  });
  if (!run.empty() && run.size() <= 100 && printable) return Ok();
  return Invalid("run \"" + std::string(run) +
                 "\": the name of a run on redis must have 1 to 100 printable characters other "
                 "than spaces and {}*?[\\");
}

std::string RedisBatchBody() {
  return std::string(kCommon) + "local making_room = false\n" + kBatch;
}
std::string RedisRoomBody() {
  return std::string(kCommon) + "local making_room = true\n" + kBatch;
}
std::string RedisTickBody() {
  return std::string(kCommon) + kTick;
}

}  // namespace tidemill
