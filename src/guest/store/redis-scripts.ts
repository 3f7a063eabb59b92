/*
 * Lua, which Redis runs without anything in between. KEYS: the value, and the index of the namespace, a sorted set of
 * its keys in which all have the same score and so are in the order of their bytes. Values expire by themselves;
 * their keys leave the index when they are met there, and with each write two places of it are looked at.
 *
 * The text of the value's key without the key itself is ARGV[1], so that others' can be made of it.
 */

const put = `
local function put(key, value, ttl)
  if ttl == '0' then redis.call('SET', KEYS[1], value)
  else redis.call('SET', KEYS[1], value, 'PX', ttl) end
  redis.call('ZADD', KEYS[2], 0, key)
  for _, other in ipairs(redis.call('ZRANDMEMBER', KEYS[2], 2)) do
    if redis.call('EXISTS', ARGV[1] .. other) == 0 then redis.call('ZREM', KEYS[2], other) end
  end
end`

/** ARGV: space, key, value, milliseconds to live or 0. */
export const SET = `${put}
put(ARGV[2], ARGV[3], ARGV[4])
return 1`

/** ARGV: as for {@link SET}; then what is expected, if a value is. */
export const COMPARE_AND_SWAP = `${put}
local found = redis.call('GET', KEYS[1])
if found ~= (ARGV[5] or false) then return 0 end
put(ARGV[2], ARGV[3], ARGV[4])
return 1`

/** ARGV: space, key. */
export const DELETE = `
redis.call('ZREM', KEYS[2], ARGV[2])
return redis.call('DEL', KEYS[1])`

/**
 * ARGV: space, limits of the range as `ZRANGEBYLEX` takes them, keys of a page. Returns the last key looked at, empty
 * if there are no more, and the page. Ten rounds at most, so that an index of expired keys holds nobody up for long.
 */
export const LIST = `
local from, most, page = ARGV[2], tonumber(ARGV[4]), {}
for _ = 1, 10 do
  local wanted = most - #page
  local found = redis.call('ZRANGEBYLEX', KEYS[1], from, ARGV[3], 'LIMIT', 0, wanted)
  for _, key in ipairs(found) do
    if redis.call('EXISTS', ARGV[1] .. key) == 1 then page[#page + 1] = key
    else redis.call('ZREM', KEYS[1], key) end
  end
  if #found < wanted then return { '', page } end
  from = '(' .. found[#found]
  if #page == most then break end
end
return { from:sub(2), page }`
