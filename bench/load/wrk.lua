-- What wrk sends, and what it tells: a line of JSON with latencies in microseconds.
-- Arguments: a file with the body, the content type, then the paths, which are asked in turns.

local requests = {}
local turn = 0

function init(args)
  local file = io.open(args[1], "rb")
  local body = file:read("*a")
  file:close()
  local headers = { ["Content-Type"] = args[2] }
  for i = 3, #args do requests[#requests + 1] = wrk.format("POST", args[i], headers, body) end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"micros":%d,"refused":%d,"lost":%d,"p50":%d,"p99":%d,"p999":%d}\n',
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
