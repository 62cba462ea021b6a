#include "bus/redis/redis_library.h"

#include <array>

#include "bus/redis/redis_scripts.h"
#include "core/hash.h"

namespace tidemill {
namespace {

// Before the functions, once.
constexpr const char* kShared = R"lua(
local roles = {'rollout', 'tools', 'reward'}

-- The hash that lists a topic: what belongs to one worker is listed by its role, all else by the learner.
local function listed_in(prefix, name)
  local role = string.match(name, '^inbox%.(%l+)%-') or string.match(name, '^tools%.%l+%.(%l+)%-')
  for _, known in ipairs(roles) do
    if role == known then return prefix .. 'topics:' .. role end
  end
  return prefix .. 'topics'
end

-- Every topic and its options, in turn.
local function all_topics(prefix)
  local all = redis.call('HGETALL', prefix .. 'topics')
  for _, role in ipairs(roles) do
    for _, word in ipairs(redis.call('HGETALL', prefix .. 'topics:' .. role)) do all[#all + 1] = word end
  end
  return all
end
)lua";

// KEYS: the hash of topics. ARGV: prefix. Reply: each topic and its options, in turn.
constexpr const char* kTopics = R"lua(
return all_topics(ARGV[1])
)lua";

// KEYS: the hash of topics. ARGV: prefix. Reply: for each topic its name, options, in the stream,
// leased, delayed, owed, died, ms since the oldest that waits, and since the oldest held, was
// published (-1: none).
constexpr const char* kDepths = R"lua(
local prefix = ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function age(entries)
  if not entries[1] then return -1 end
  local id, fields = entries[1][1], entries[1][2]
  for i = 1, #fields, 2 do
    if fields[i] == 'i' then id = fields[i + 1] end
  end
  return math.max(0, now - (tonumber(string.match(id, '^%d+')) or now))
end
local out = {}
local all = all_topics(prefix)
for i = 1, #all, 2 do
  local base = prefix .. 't:' .. all[i]
  local stream, state = base .. ':stream', base .. ':state'
  local leased, held, waits = 0, -1, -1
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if not groups.err and groups[1] then
    local last = '0-0'
    for f = 1, #groups[1], 2 do
      if groups[1][f] == 'last-delivered-id' then last = groups[1][f + 1] end
    end
    local pending = redis.call('XPENDING', stream, 'g')
    leased = pending[1]
    if leased > 0 then held = age(redis.call('XRANGE', stream, pending[2], '+', 'COUNT', 1)) end
    waits = age(redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1))
  end
  out[#out + 1] = {all[i], all[i + 1], redis.call('XLEN', stream), leased,
                   redis.call('ZCARD', base .. ':delayed'),
                   tonumber(redis.call('HGET', state, 'owed')) or 0,
                   tonumber(redis.call('HGET', state, 'dead')) or 0, waits, held}
end
return out
)lua";

// KEYS: the stream of dead letters. ARGV: prefix, entry, "retry" or "drop". Reply: "ok" or what
// hinders.
constexpr const char* kLetter = R"lua(
local prefix, id, how = ARGV[1], ARGV[2], ARGV[3]
local e = redis.call('XRANGE', KEYS[1], id, id)
if not e[1] then return 'missing' end
local f = {}
for i = 1, #e[1][2], 2 do f[e[1][2][i]] = e[1][2][i + 1] end
local bodies = prefix .. 'body:'
local own_key = f.k and string.sub(f.k, 1, #bodies) == bodies
if how == 'retry' then
  local options = redis.call('HGET', listed_in(prefix, f.t), f.t)
  if not options then return 'notopic ' .. f.t end
  local stream = prefix .. 't:' .. f.t .. ':stream'
  local size = redis.call('XLEN', stream) + redis.call('ZCARD', prefix .. 't:' .. f.t .. ':delayed')
  if size >= tonumber(string.match(options, '^%d+')) then return 'full ' .. f.t end
  if own_key and redis.call('PEXPIRE', f.k, 86400000) == 0 then return 'nobody' end
  if f.k then redis.call('XADD', stream, '*', 'k', f.k) else redis.call('XADD', stream, '*', 'b', f.b or '') end
elseif own_key then
  redis.call('UNLINK', f.k)
end
redis.pcall('XACK', KEYS[1], 'g', id)
redis.call('XDEL', KEYS[1], id)
return 'ok'
)lua";

// KEYS: the delayed messages of a topic. ARGV: the first and the last rank. Reply: as of a stream.
constexpr const char* kDelayed = R"lua(
local out = {}
for i, packed in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  local read, fields = pcall(cmsgpack.unpack, packed)
  out[i] = {'0-' .. i, read and type(fields) == 'table' and fields or {}}
end
return out
)lua";

// KEYS: the set of workers. ARGV: worker, its key, the beat, ms until it is forgotten, the run's
// totals, what this process told so far, then names and counts since it began. Only what is new is
// added, so that a beat whose answer was lost may be sent again.
constexpr const char* kBeat = R"lua(
local told = {}
local before = redis.call('HGETALL', ARGV[6])
for i = 1, #before, 2 do told[before[i]] = tonumber(before[i + 1]) end
for i = 7, #ARGV, 2 do
  local more = tonumber(ARGV[i + 1]) - (told[ARGV[i]] or 0)
  if more ~= 0 then
    redis.call('HINCRBYFLOAT', ARGV[5], ARGV[i], string.format('%.17g', more))
    redis.call('HSET', ARGV[6], ARGV[i], ARGV[i + 1])
  end
end
redis.call('PEXPIRE', ARGV[6], ARGV[4])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('SET', ARGV[2], ARGV[3], 'PX', ARGV[4])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
)lua";

// KEYS: the set of workers. ARGV: what the key of a worker begins with. Reply: ms since its beat,
// the beat, ..
constexpr const char* kWorkers = R"lua(
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local out = {}
for i = 1, #all, 2 do
  local beat = redis.call('GET', ARGV[1] .. all[i])
  if beat then
    out[#out + 1] = math.max(0, now - tonumber(all[i + 1]))
    out[#out + 1] = beat
  end
end
return out
)lua";

// KEYS: a stream. ARGV: bytes of an entry at most. Reply: how many larger ones were removed.
constexpr const char* kPurge = R"lua(
local from, removed = '-', 0
while true do
  local entries = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 16)
  for _, entry in ipairs(entries) do
    local bytes = 0
    for _, word in ipairs(entry[2]) do bytes = bytes + #word end
    if bytes > tonumber(ARGV[1]) then
      redis.pcall('XACK', KEYS[1], 'g', entry[1])
      removed = removed + redis.call('XDEL', KEYS[1], entry[1])
    end
  end
  if #entries < 16 then return removed end
  from = '(' .. entries[16][1]
end
)lua";

// KEYS: a stream. ARGV: entries at most, the topic's state. Takes the newest away, in parts. Reply:
// how many. Who waits for one of them learns that messages were lost, as where a stream was
// deleted.
constexpr const char* kCut = R"lua(
local removed = 0
for _ = 1, 100 do
  local over = redis.call('XLEN', KEYS[1]) - tonumber(ARGV[1])
  if over <= 0 then break end
  for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', math.min(over, 16))) do
    redis.pcall('XACK', KEYS[1], 'g', entry[1])
    removed = removed + redis.call('XDEL', KEYS[1], entry[1])
  end
end
if removed > 0 then
  local t = redis.call('TIME')
  redis.call('HSET', ARGV[2], 'made', t[1] * 1000 + math.floor(t[2] / 1000))
end
return removed
)lua";

// KEYS: a stream or the delayed messages of a topic. ARGV: "stream" and an id, or "delayed" and a
// rank to begin at. Reply: where to go on ("": that was all), the keys of the bodies.
constexpr const char* kBodies = R"lua(
local bodies, from = {}, ARGV[2]
local function note(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'k' then bodies[#bodies + 1] = fields[i + 1] end
  end
end
for _ = 1, 20 do
  local found
  if ARGV[1] == 'stream' then
    found = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 16)
    for _, entry in ipairs(found) do note(entry[2]) end
    if #found > 0 then from = '(' .. found[#found][1] end
  else
    found = redis.call('ZRANGE', KEYS[1], from, from + 15)
    for _, packed in ipairs(found) do
      local read, fields = pcall(cmsgpack.unpack, packed)
      if read and type(fields) == 'table' then note(fields) end
    end
    from = tostring(from + #found)
  end
  if #found < 16 then return {'', bodies} end
end
return {from, bodies}
)lua";

// The server refuses a function without flags as a whole when it has no memory left.
constexpr const char* kAllowOom = "'allow-oom'";
constexpr const char* kNoWrites = "'no-writes','allow-oom'";

constexpr size_t kFunctions = static_cast<size_t>(RedisFunction::kBodies) + 1;

struct Row {
  const char* name;
  const char* flags;
  std::string body;
};

// In the order of RedisFunction.
std::array<Row, kFunctions> Rows() {
  return {{{"batch", "", RedisBatchBody()},
           {"room", kAllowOom, RedisRoomBody()},
           {"tick", kAllowOom, RedisTickBody()},
           {"topics", kNoWrites, kTopics},
           {"depths", kNoWrites, kDepths},
           {"delayed", kNoWrites, kDelayed},
           {"letter", "", kLetter},
           {"beat", "", kBeat},
           {"workers", kNoWrites, kWorkers},
           {"purge", kAllowOom, kPurge},
           {"cut", kAllowOom, kCut},
           {"bodies", kNoWrites, kBodies}}};
}

struct Library {
  Library() {
    const std::array<Row, kFunctions> rows = Rows();
    std::string all = kShared;
    for (const Row& row : rows) all += row.name + row.body + row.flags;
    const std::string name = "tidemill_" + Sha256Hex(all).substr(0, 12);
    text = "#!lua name=" + name + "\n" + kShared;
    for (size_t i = 0; i < rows.size(); ++i) {
      names[i] = name + "_" + rows[i].name;
      only_reads[i] = rows[i].flags == kNoWrites;
      text += "redis.register_function{function_name='" + names[i] + "', flags={" + rows[i].flags +
              "}, callback=function(KEYS, ARGV)\n" + rows[i].body + "\nend}\n";
    }
  }
  std::string text;
  std::array<std::string, kFunctions> names;
  std::array<bool, kFunctions> only_reads{};
};

const Library& TheLibrary() {
  static const Library library;
  return library;
}

}  // namespace

const std::string& RedisFunctionName(RedisFunction function) {
  return TheLibrary().names.at(static_cast<size_t>(function));
}

std::string_view RedisFunctionCommand(RedisFunction function) {
  return TheLibrary().only_reads.at(static_cast<size_t>(function)) ? "FCALL_RO" : "FCALL";
}

const std::string& RedisLibraryText() {
  return TheLibrary().text;
}

Status LoadRedisLibrary(RedisConnection& connection, Duration timeout) {
  TM_ASSIGN_OR_RETURN(ReplyPtr reply,
                      connection.Call({"FUNCTION", "LOAD", RedisLibraryText()}, timeout));
  if (!IsReplyError(*reply)) return Ok();
  const std::string error(ReplyText(*reply));
  if (error.starts_with("NOPERM") || error.find("already exists") != std::string::npos) return Ok();
  return Unavailable("redis: FUNCTION LOAD: " + error);
}

bool IsFunctionMissing(std::string_view error) {
  return error.find("Function not found") != std::string_view::npos;
}

}  // namespace tidemill
