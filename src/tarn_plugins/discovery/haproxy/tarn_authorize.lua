-- Authorization in HAProxy 2.6 or newer: who asks (tarn_identify), and whether they may
-- (tarn_authorize). haproxy.cfg of `tarn lb haproxy config --authz` loads this file, obeys it, and
-- sets for it, as variables of the environment:
--
--   TARN_AUTHZ_ASK    address of a frontend of the same HAProxy that leads to the master, and has
--                     the short time limits
--   TARN_AUTHZ_GRACE  seconds for which a right outlives a master that cannot be reached
--   TARN_AUTHZ_KNOX   "yes" where Knox may come
--   TARN_AUTHZ_API    "yes" where people reach the master's own API, below /tarn
--   TARN_AUTHZ_ANSWERS  "yes" where the master answers for the whole fleet: it decides itself
--                     who may load models and change settings
--
-- The one who starts HAProxy sets TARN_PROXY_TOKEN, which proves this HAProxy to the master, and
-- TARN_KNOX_GATE, which proves Knox to this HAProxy.
--
-- It fails closed: haproxy.cfg lets a request pass only where txn.tarn_verdict is "allow", and an
-- error in here leaves that unset. A Lua state of HAProxy runs on one thread at a time, and gives
-- way only where it waits: so what stands between two waits happens at once.

local function given(name, least)
  local value = os.getenv(name) or ""
  assert(#value >= least, name .. " is missing, or shorter than " .. least .. " signs")
  return value
end

local HOST, PORT = given("TARN_AUTHZ_ASK", 9):match("^([%d.]+):(%d+)$")
assert(HOST, "TARN_AUTHZ_ASK is not an address with a port")
local GRACE_S = assert(tonumber(given("TARN_AUTHZ_GRACE", 1)), "TARN_AUTHZ_GRACE is not a number")
local TOKEN = given("TARN_PROXY_TOKEN", 16)
assert(not TOKEN:find("[^!-~]"), "TARN_PROXY_TOKEN has blanks, or signs that no header carries")
local GATE = os.getenv("TARN_AUTHZ_KNOX") == "yes" and given("TARN_KNOX_GATE", 24) or nil

local HAS_API = os.getenv("TARN_AUTHZ_API") == "yes"
local HAS_ANSWERS = os.getenv("TARN_AUTHZ_ANSWERS") == "yes"

local ALLOW_S, DENY_S, ERROR_S = 5, 2, 1 -- for which an answer, or none, is believed
local ANSWER_S = 1       -- for an answer; the hop sends it whole, and has shorter limits itself
local DEADLINE_S = 2     -- for an answer that another request asked for
local MOST = 8192        -- answers kept of each kind, twice
local AT_ONCE = 16       -- questions of one user, so that nobody's inventions stop the others
local LONGEST = 255      -- a user's name, a model's name

local HTTP = {
  [""] = "metadata", ready = "metadata", config = "metadata", stats = "metadata",
  infer = "infer", generate = "infer", generate_stream = "infer",
}
local GRPC = {
  ServerLive = "open", ServerReady = "open", ServerMetadata = "metadata",
  ModelReady = "metadata", ModelMetadata = "metadata", ModelConfig = "metadata",
  ModelStatistics = "metadata", RepositoryIndex = "list",
  ModelInfer = "infer", ModelStreamInfer = "infer",
}
local CONTROL = {
  RepositoryModelLoad = true, RepositoryModelUnload = true, TraceSetting = true, LogSettings = true,
}
local METHODS = { GET = true, HEAD = true, POST = true }
local MASTERS = { GET = true, HEAD = true, PUT = true }
local IDENTITY = { ["user.name"] = true, doas = true, token = true }

local function now_s()
  local time = core.now()
  return time.sec + time.usec / 1e6
end

-- -- what is asked for ---------------------------------------------------------------------------
-- Nothing is decoded, so nobody behind can read more into a path than was read here. Each returns
-- a model and an action: "open" needs no right, "admin" and "other" are nobody's, nil is malformed;
-- "master" is for the master's own API, "control" for its answers as a Triton: it decides itself.

local function is_control(path)
  return HAS_ANSWERS and (path == "/v2/trace/setting" or path == "/v2/logging"
    or path:find("^/v2/models/[^/]+/trace/setting$")
    or path:find("^/v2/repository/models/[^/]+/load$")
    or path:find("^/v2/repository/models/[^/]+/unload$"))
end

local function of_http(path)
  if path:find("[^%w._/-]") or path:find("//", 1, true) or path:find("/.", 1, true) then
    return nil
  end
  if path == "/v2/health/live" or path == "/v2/health/ready" then return "", "open" end
  if HAS_API and path:find("^/tarn/") then return "", "master" end
  if path == "/v2" then return "*", "metadata" end
  if path == "/v2/models/stats" or path == "/v2/repository/index" then return "*", "list" end
  if is_control(path) then return "", "control" end
  if not path:find("^/v2/") then return "", "other" end
  local model, rest = path:match("^/v2/models/([^/]+)(.*)$")
  if not model then return "", "admin" end
  if #model > LONGEST then return nil end
  local version, below = rest:match("^/versions/(%d+)(.*)$")
  if version and #version > 19 then return nil end
  below = below or rest
  if below == "/" or below:find("^[^/]") then return nil end
  return model, HTTP[(below:gsub("^/", "", 1))] or "admin"
end

local function of_grpc(path)
  if path == "/grpc.health.v1.Health/Check" then return "", "open" end
  local call = path:match("^/inference%.GRPCInferenceService/(%a+)$")
  if not call then return "", "other" end
  if HAS_ANSWERS and CONTROL[call] then return "", "control" end
  -- the model stands in the message, where two readers can differ: all models, or none
  return "*", GRPC[call] or "admin"
end

local DOORS = { http = of_http, grpc = of_grpc }

-- -- who asks ------------------------------------------------------------------------------------

local function same(one, other) -- in the same time wherever they differ
  if #one ~= #other then return false end
  local differ = 0
  for at = 1, #one do differ = differ | (one:byte(at) ~ other:byte(at)) end
  return differ == 0
end

local function is_user(name)
  return #name <= LONGEST and name:find("^[%w_][%w._@-]*$") ~= nil
end

-- The name of a parameter as the most generous reader would see it.
local function read(name)
  for _ = 1, 4 do
    local decoded = name:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
    if decoded == name then break end
    name = decoded
  end
  return (name:lower():gsub("[%s%c+]", ""))
end

local function users_named(query)
  local count = 0
  for parameter in query:gmatch("[^&;?]+") do
    local name = parameter:match("^[^=]*")
    local decoded = read(name)
    if decoded == "user.name" then
      count = count + 1
    elseif decoded:find("[&;?]user%.name") or decoded:find("^user%.name=") then
      count = count + 1 -- a separator that was encoded
    end
  end
  return count
end

local function has_gate(txn)
  if not GATE then return false end
  local found = false
  for _, value in pairs(txn.http:req_get_headers()["x-tarn-gate"] or {}) do
    found = same(value, GATE) or found
  end
  return found
end

-- Returns a user and what proved it; or nil, and the status of a refusal.
local function who(txn)
  local query = txn.sf:query() or ""
  if users_named(query) > 1 then return nil, 400 end
  local certificate = txn:get_var("txn.tarn_certificate")
  if certificate then
    if is_user(certificate) then return certificate, "certificate" end
    return nil, 403
  end
  if not txn:get_var("txn.tarn_from_knox") then return "anonymous", "nothing" end
  if not has_gate(txn) then return "anonymous", "no-gate" end
  -- Knox takes away what clients say of user.name, and adds its own word as the last
  local name = query:match("[^&]*$"):match("^user%.name=([%w._%%-]+)$")
  name = name and name:gsub("%%40", "@", 1)
  if name and is_user(name) then return name, "knox" end
  return nil, 403
end

-- -- answers, and for how long -------------------------------------------------------------------

-- A bounded table: where it is full, what was not written since the last time it was is forgotten.
local function bounded(most)
  local young, old, count = {}, {}, 0
  local kept = {}
  function kept.get(key) return young[key] or old[key] end
  function kept.drop(key) young[key], old[key] = nil, nil end
  function kept.put(key, value)
    if not young[key] then
      if count >= most then young, old, count = {}, young, 0 end
      count = count + 1
    end
    young[key] = value
  end
  return kept
end

-- Kept apart, so that questions about models that nobody has push out no right.
local allowed, refused = bounded(MOST), bounded(MOST)
local pending = bounded(MOST) -- the question that is being asked, or was when its client left
local asking = {}             -- user to a list of questions

local function asked_by(user, at_s)
  local alive = {}
  for _, question in ipairs(asking[user] or {}) do
    -- one that is old was left: its client went away
    if not question.verdict and at_s - question.began_s < ANSWER_S then
      alive[#alive + 1] = question
    end
  end
  asking[user] = #alive > 0 and alive or nil
  return alive
end

local function exchange(query)
  local socket = core.tcp()
  socket:settimeout(ANSWER_S)
  local answer
  if socket:connect(HOST, tonumber(PORT)) then
    socket:send("GET /authorize" .. query .. " HTTP/1.1\r\nHost: tarn\r\nConnection: close\r\n"
      .. "Accept: text/plain\r\n"
      .. "X-TARN-Token: " .. TOKEN .. "\r\n\r\n")
    answer = socket:receive("*a")
  end
  socket:close()
  return answer
end

-- Asks the master. Returns "allow", "deny", "away" (it could not be reached, or cannot tell now) or
-- "error"; and why.
local function ask(query)
  local went_well, answer = pcall(exchange, query)
  if not went_well then return "error", "lua" end
  local status, head, body = (answer or ""):match("^HTTP/1%.1 (%d%d%d) (.-\r\n)\r\n(.*)$")
  local length = head and tonumber(head:match("\r\ncontent%-length: (%d+)\r\n"))
  if not length or length ~= #body then return "away", "silent" end
  if status == "200" and body == "true" then return "allow", "true" end
  if status == "200" and body == "false" then return "deny", "false" end
  if body == "away" then return "away", "away" end -- the hop's own words
  return "error", body:match("^master%-%d%d%d$") or "odd"
end

local function settle(key, question, verdict, why)
  if pending.get(key) ~= question then return end -- it came late, and somebody asked again
  local at_s = now_s()
  pending.drop(key)
  local before = allowed.get(key)
  if verdict == "allow" then
    allowed.put(key, { till_s = at_s + ALLOW_S, since_s = question.began_s, why = why })
    refused.drop(key)
  elseif verdict == "away" and before and at_s - before.since_s < GRACE_S then
    local till_s = math.min(at_s + ERROR_S, before.since_s + GRACE_S)
    allowed.put(key, { till_s = till_s, since_s = before.since_s, why = "grace" })
    verdict, why = "allow", "grace"
  elseif verdict == "deny" then
    allowed.drop(key)
    refused.put(key, { till_s = at_s + DENY_S, verdict = "deny", why = why })
  else
    -- a right is not forgotten by a master that is away: it may count again within its grace
    if verdict ~= "away" then allowed.drop(key) end
    verdict = "unknown"
    refused.put(key, { till_s = at_s + ERROR_S, verdict = verdict, why = why })
  end
  question.why, question.verdict = why, verdict
end

-- The request that asks may end before its answer, when its client goes away; then nobody settles
-- the question, and after ANSWER_S one of those that wait asks again.
local function is_alive(question, at_s)
  return question and at_s - question.began_s < ANSWER_S
end

local function wait_for(question)
  local pause_ms = 1
  while not question.verdict and is_alive(question, now_s()) do
    core.msleep(pause_ms)
    pause_ms = math.min(pause_ms + 1, 10)
  end
end

-- What is known without asking, or nil.
local function remembered(key, at_s)
  local known = allowed.get(key)
  if known and at_s < known.till_s then return "allow", known.why end
  known = refused.get(key)
  if known and at_s < known.till_s then return known.verdict, known.why end
  return nil
end

local function lead(key, user, model, action)
  local at_s = now_s()
  local theirs = asked_by(user, at_s)
  -- a right that was given is asked about again however many inventions its user asks about
  if #theirs >= AT_ONCE and not allowed.get(key) then return "unknown", "too-many" end
  local question = { began_s = at_s }
  pending.put(key, question)
  theirs[#theirs + 1] = question
  asking[user] = theirs
  local words = "?model=" .. model .. "&action=" .. action .. "&user=" .. user:gsub("@", "%%40")
  settle(key, question, ask(words))
  asked_by(user, now_s())
  return question.verdict or "unknown", question.why or "late"
end

local function may(user, model, action)
  local key, until_s = user .. "|" .. action .. "|" .. model, now_s() + DEADLINE_S
  while now_s() < until_s do
    local verdict, why = remembered(key, now_s())
    if verdict then return verdict, why end
    local question = pending.get(key)
    if not is_alive(question, now_s()) then return lead(key, user, model, action) end
    wait_for(question)
    if question.verdict then return question.verdict, question.why end
  end
  return "unknown", "late"
end

-- -- what haproxy.cfg calls ----------------------------------------------------------------------

core.register_action("tarn_identify", { "http-req" }, function(txn)
  local user, how = who(txn)
  if user then
    txn:set_var("txn.tarn_user", user)
    txn:set_var("txn.tarn_by", how)
  else
    txn:set_var("txn.tarn_refused", tostring(how))
  end
end, 0)

-- What is passed on: to an instance the path alone, to the master what is below /tarn, and of the
-- query what says nothing of a user.
local function target(txn, path, action)
  if action ~= "master" then return path end
  local kept = {}
  for parameter in (txn.sf:query() or ""):gmatch("[^&]+") do
    local name = parameter:match("^([%w_.-]+)=[%w_.*%%:,@-]*$")
    if name and not IDENTITY[read(name)] then kept[#kept + 1] = parameter end
  end
  return path:sub(#"/tarn" + 1) .. (#kept > 0 and "?" .. table.concat(kept, "&") or "")
end

core.register_action("tarn_authorize", { "http-req" }, function(txn, door)
  local user, path = txn:get_var("txn.tarn_user"), txn.sf:path() or ""
  local model, action = DOORS[door](path)
  local verdict, why = "deny", "nobody"
  if not model then
    model, action, why = "", "malformed", "malformed"
  elseif not (action == "master" and MASTERS or METHODS)[txn.sf:method()] then
    why = "method"
  elseif not user then
    why = "unidentified"
  elseif action == "open" then
    verdict, why = "allow", "open"
  elseif action == "master" or action == "control" then
    if user ~= "anonymous" then verdict, why = "allow", action end
  elseif action ~= "admin" and action ~= "other" then
    verdict, why = may(user, model, action)
  end
  txn:set_var("txn.tarn_model", model)
  txn:set_var("txn.tarn_action", action)
  txn:set_var("txn.tarn_why", why)
  txn:set_var("txn.tarn_target", target(txn, path, action))
  txn:set_var("txn.tarn_verdict", verdict)
end, 1)
