-- Affinity and holding in HAProxy 2.6 or newer: which requests must reach the same instance, and
-- waiting while there is none. haproxy.cfg of `tarn lb haproxy config` loads this file.
--
-- The agent `tarn lb haproxy` sets, through the Runtime API:
--
--   proc.tarn_affinity    the version of the rules and the number of their parts, "41f0.2"; "none"
--                         where the agent knows of no rules
--   proc.tarn_affinity.0  the parts, in order; together the rules, as `affinity_text.py` writes them
--   proc.tarn_filled      once all servers are there
--
-- This file sets for haproxy.cfg:
--
--   txn.tarn_key          requests with the same key go to the same server
--   txn.tarn_stick        the same, where the server is remembered although others come and go
--   txn.tarn_bounded      true where another server may answer if that one has too much in hand
--   txn.tarn_end          true at the last request of a sequence
--   txn.tarn_refusal      why a request must not be passed on: a sentence without quotes
--   txn.tarn_reads        true where `tarn_key` must read the body
--
-- Nothing here guesses: a request of a model with sequences whose sequence cannot be read is
-- refused. One that was read, and names no sequence, is passed on: Triton has its own error.

local YOUNG_S = 20       -- after its start a HAProxy waits that long for the agent, and no longer
local PARTS = 64         -- of the rules, at most
local LONGEST = 40       -- of a key; a longer one is hashed
local SEEN = "first 15 KB of the body"

local function now_s()
  local time = core.now()
  return time.sec + time.usec / 1e6
end

local began_s

core.register_init(function() began_s = now_s() end)

local function is_young() return now_s() - (began_s or 0) < YOUNG_S end

-- -- the rules -----------------------------------------------------------------------------------

-- The text in which a byte may be written as *sign* (a pattern) and its code in hexadecimal.
local function decoded(text, sign)
  return (text:gsub(sign .. "(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

local function plain(text) return decoded(text, "~") end

-- The rule where none is known: a sequence that can be read keeps its server, nothing is refused.
local USUAL = {
  key = "sequence", header = "", path = "", first = 0, sticks = true, models = {}, usual = true,
}

-- One rule: key:header:path:first_bytes:sticks:model+model
local function read_rule(text)
  local key, header, path, first, sticks, models =
    text:match("^(%a+):([^:]*):([^:]*):(%d+):(%d):([^:]*)$")
  if not key then return nil end
  if key == "readable" then return USUAL end
  local rule = {
    key = key, header = plain(header):lower(), path = plain(path), first = tonumber(first),
    sticks = sticks == "1", bounded = sticks == "2", models = {},
  }
  for name in models:gmatch("[^+]+") do rule.models[#rule.models + 1] = plain(name) end
  return rule
end

-- Returns a table: by_model, rest (the rule of every other model), some, and messages, where gRPC's
-- messages must be read, as the model's name stands there.
local function table_of(rules)
  local found = { by_model = {}, some = false, messages = false, sequences = false }
  for _, rule in ipairs(rules) do
    found.some = true
    found.messages = found.messages or rule.key == "sequence" or #rule.models > 0
    found.sequences = found.sequences or (rule.key == "sequence" and not rule.usual)
    if #rule.models == 0 then
      found.rest = rule
      return found
    end
    for _, name in ipairs(rule.models) do
      found.by_model[name] = found.by_model[name] or rule
    end
  end
  return found
end

local UNTOLD = { by_model = {}, some = true, messages = true, sequences = false, rest = USUAL }
local known, version = UNTOLD, nil

local function read_rules(txn, head)
  local count = tonumber(head:match("%.(%d+)$") or "0")
  local parts = {}
  for at = 0, math.min(count, PARTS) - 1 do
    parts[#parts + 1] = txn:get_var("proc.tarn_affinity." .. at) or ""
  end
  local rules = {}
  for text in table.concat(parts):gmatch("[^/]+") do
    local rule = read_rule(text)
    if not rule then
      core.Warning("tarn_door: a rule cannot be read: " .. text)
      return UNTOLD
    end
    rules[#rules + 1] = rule
  end
  return table_of(rules)
end

local function rules_now(txn)
  local head = txn:get_var("proc.tarn_affinity")
  while not head and is_young() do
    core.msleep(20)
    head = txn:get_var("proc.tarn_affinity")
  end
  if head ~= version then
    known = (head == nil or head == "none") and UNTOLD or read_rules(txn, head)
    version = head
  end
  return known
end

-- -- JSON, of which only the head may be here ----------------------------------------------------
-- Each returns a place in the text; nil where the text ends too early, or is not JSON.

local function after_string(text, at)
  at = at + 1
  while true do
    local found = text:find('["\\]', at)
    if not found then return nil end
    if text:byte(found) == 34 then return found + 1 end
    at = found + 2
  end
end

local function after_value(text, at)
  local first = text:sub(at, at)
  if first == '"' then return after_string(text, at) end
  if first ~= "{" and first ~= "[" then
    local ends = text:find("[,%]}%s]", at)
    return ends ~= at and ends or nil
  end
  local depth = 0
  while true do
    local found = text:find('["%[%]{}]', at)
    if not found then return nil end
    local sign = text:sub(found, found)
    if sign == '"' then
      at = after_string(text, found)
      if not at then return nil end
    else
      depth = depth + ((sign == "{" or sign == "[") and 1 or -1)
      at = found + 1
      if depth == 0 then return at end
    end
  end
end

local function skip(text, at) return (text:find("[^ \t\r\n]", at)) end

-- Where the value of *name* begins in the object at *at*; 0 where the whole object has no such
-- member. Of two with the same name the first counts, as in Triton.
local function member(text, at, name)
  at = skip(text, at + 1)
  if at and text:sub(at, at) == "}" then return 0 end
  while at do
    local key, colon = text:match('^"([^"\\]*)"[ \t\r\n]*():', at)
    local value = colon and skip(text, colon + 1)
    if not value then return nil end
    if key == name then return value end
    at = after_value(text, value)
    at = at and skip(text, at)
    if not at then return nil end
    local sign = text:sub(at, at)
    if sign == "}" then return 0 end
    if sign ~= "," then return nil end
    at = skip(text, at + 1)
  end
  return nil
end

local function item(text, at, number)
  at = skip(text, at + 1)
  for _ = 1, number do
    if not at or text:sub(at, at) == "]" then return at and 0 end
    at = after_value(text, at)
    at = at and skip(text, at)
    if not at then return nil end
    if text:sub(at, at) ~= "," then return 0 end
    at = skip(text, at + 1)
  end
  return at and (text:sub(at, at) == "]" and 0 or at)
end

local function at_path(text, path)
  local at = skip(text, 1)
  for step in path:gmatch("[^.]+") do
    local sign = at and text:sub(at, at)
    if not at then return nil end
    if sign == "{" then
      at = member(text, at, step)
    elseif sign == "[" and step:find("^%d+$") then
      at = item(text, at, tonumber(step))
    else
      return 0
    end
    if not at or at == 0 then return at end
  end
  return at
end

-- Returns a key; false where the request names no sequence; nil where that cannot be read.
local function sequence_at(text, at)
  if not at then return nil end
  if at == 0 then return false end
  local digits = text:match("^(%d+)[ \t\r\n]*[,}]", at)
  if digits then return digits ~= "0" and digits end
  local name = text:match('^"([^"\\]*)"[ \t\r\n]*[,}]', at)
  if name then return name ~= "" and name end
  return nil
end

local function sequence_of_http(text, verb)
  local first = skip(text, 1)
  if not first or text:sub(first, first) ~= "{" then return nil end
  local inside = member(text, first, "parameters")
  if inside == nil then return nil end
  if inside > 0 and text:sub(inside, inside) == "{" then
    local at = member(text, inside, "sequence_id")
    local key = sequence_at(text, at)
    local ends = key and member(text, inside, "sequence_end")
    local is_end = ends and ends > 0 and text:find("^true", ends) ~= nil
    if key ~= false then return key, is_end end
  end
  if verb == "infer" then return false end
  return sequence_at(text, member(text, first, "sequence_id")) -- generate takes it there
end

-- -- gRPC: the head of a ModelInferRequest -------------------------------------------------------

local function varint(text, at)
  local value, shift = 0, 0
  while shift < 70 do
    local byte = text:byte(at)
    if not byte then return nil end
    value = value | ((byte & 127) << shift)
    at, shift = at + 1, shift + 7
    if byte < 128 then return value, at end
  end
  return nil
end

local function decimal(number) -- of 64 bits without a sign
  if number >= 0 then return string.format("%d", number) end
  local tens = (number >> 1) // 5
  return string.format("%d%d", tens, number - tens * 10)
end

-- Calls *each* with the number, the wire type, and the content of each field: a text, or a number.
-- Returns nil where all was read, else the number of the field that is not here whole.
local function fields(text, at, ends, each)
  while at < ends do
    local tag, value, first
    tag, at = varint(text, at)
    if not tag then return 0 end
    local number, kind = tag >> 3, tag & 7
    if kind == 0 then
      value, at = varint(text, at)
    elseif kind == 1 then
      value, at = "", at + 8
    elseif kind == 5 then
      value, at = "", at + 4
    elseif kind == 2 then
      value, first = varint(text, at)
      if value and (value < 0 or first + value > ends or first + value > #text + 1) then
        return number
      end
      if value then value, at = text:sub(first, first + value - 1), first + value end
    else
      return 0
    end
    if not value then return number end
    each(number, kind, value)
  end
  return nil
end

local function parameter(text)
  local found = {}
  local left = fields(text, 1, #text + 1, function(number, kind, value)
    if number == 1 and kind == 2 then found.name = value end
    if number == 2 and kind == 2 then found.value = value end
  end)
  return not left and found.name, found.value or ""
end

local function parameter_value(text)
  local found
  fields(text, 1, #text + 1, function(number, kind, value)
    if number == 3 and kind == 2 then found = value
    elseif kind == 0 and (number == 2 or number == 5) then found = decimal(value)
    elseif kind == 0 and number == 1 then found = value ~= 0 end
  end)
  return found
end

-- Returns model, key and whether the sequence ends; a key as from `sequence_at`. The model is nil
-- where it cannot be read.
local function read_message(body)
  if #body < 5 or body:byte(1) ~= 0 then return nil, nil end -- compressed: nothing can be read
  local a, b, c, d = body:byte(2, 5)
  local ends = 6 + (a << 24 | b << 16 | c << 8 | d)
  local model, key, is_end = nil, false, false
  local left = fields(body, 6, ends, function(number, kind, value)
    if number == 1 and kind == 2 then model = value end
    if number ~= 4 or kind ~= 2 then return end
    local name, given = parameter(value)
    if name == "sequence_id" then
      key = parameter_value(given)
      if key == "" or key == "0" then key = false end
      if key == true then key = nil end
    elseif name == "sequence_end" then
      is_end = parameter_value(given) == true
    end
  end)
  -- serializers write fields by number: behind the tensors (5) there is no parameter (4)
  if left and left < 5 then return model, key or nil end
  return model, key, is_end
end

-- -- the key of a request ------------------------------------------------------------------------

local function of_path(path)
  local model, rest = path:match("^/v2/models/([^/]+)(.*)$")
  if not model then return nil, "" end
  -- Clients encode what is not a letter or a digit. Triton 2.51 decodes no name (measured); with
  -- one that does, %61cc is the model acc.
  model = decoded(model, "%%")
  rest = rest:gsub("^/versions/%d+", "", 1)
  return model, (rest:gsub("^/", "", 1))
end

local KEYED = { infer = true, generate = true, generate_stream = true }

local function header(txn, name)
  local value = txn.f:req_hdr(name)
  value = value and value:match("^%s*(.-)%s*$")
  return value ~= "" and value or nil
end

local function set_key(txn, rule, text, letter)
  if rule.first > 0 then text = text:sub(1, rule.first) end
  if #text > LONGEST or text:find("[^%w_.-]") then
    text = "." .. string.format("%x", txn.c:xxh64(text, 0))
  end
  text = letter .. "." .. text
  txn:set_var("txn.tarn_key", text)
  if rule.sticks then txn:set_var("txn.tarn_stick", text) end
  if rule.bounded then txn:set_var("txn.tarn_bounded", true) end
end

local function set_sequence(txn, rule, key, is_end)
  set_key(txn, rule, key, "s")
  if is_end then txn:set_var("txn.tarn_end", true) end
end

local function refuse(txn, why)
  txn:set_var("txn.tarn_refusal", why .. ": send it as header X-Sequence-Id")
end

-- Reads what needs no body; says whether the body must be read.
local function begin(txn, rule)
  if rule.key == "header" then
    local value = header(txn, rule.header)
    if value then set_key(txn, rule, value, "h") end
    return false
  end
  if rule.key ~= "sequence" then return true end
  local value = header(txn, "x-sequence-id")
  if not value then return true end
  if value:find("[^0]") then set_sequence(txn, rule, value, false) end
  return false
end

-- Only what may have a key waits for the rules.

local function begin_http(txn)
  local model, verb = of_path(txn.sf:path() or "")
  if not model or not KEYED[verb] then return end
  local rules = rules_now(txn)
  local rule = rules.by_model[model] or rules.rest
  if rule and begin(txn, rule) then txn:set_var("txn.tarn_reads", true) end
end

local function begin_grpc(txn)
  local call = (txn.sf:path() or ""):match("^/inference%.GRPCInferenceService/(%a+)$")
  if call ~= "ModelInfer" and call ~= "ModelStreamInfer" then return end
  local rules = rules_now(txn)
  -- before the model is known: what a client says of its sequence counts
  if rules.sequences or rules.rest == USUAL then
    if not begin(txn, USUAL) then return end
  end
  if call == "ModelStreamInfer" or not rules.messages then
    if rules.rest and rules.rest.key == "header" then begin(txn, rules.rest) end
    return
  end
  txn:set_var("txn.tarn_reads", true)
end

core.register_action("tarn_begin", { "http-req" }, function(txn, door)
  if door == "http" then begin_http(txn) else begin_grpc(txn) end
end, 1)

local function key_of_http(txn, rules)
  local model, verb = of_path(txn.sf:path() or "")
  local rule = rules.by_model[model] or rules.rest
  if not rule then return end
  local text = txn.f:req_body() or ""
  local coded = header(txn, "content-encoding")
  local readable = not coded or coded:lower() == "identity"
  local json = tonumber(header(txn, "inference-header-content-length") or "")
  local head = json and json < #text and text:sub(1, json) or text
  if rule.key == "sequence" then
    local key, is_end
    if readable then key, is_end = sequence_of_http(head, verb) end
    if key then
      set_sequence(txn, rule, key, is_end)
    elseif key == nil and not rule.usual then
      local where = readable and ("in the " .. SEEN) or ("in a body that is " .. "encoded")
      refuse(txn, "no sequence_id can be read " .. where)
    end
  elseif rule.key == "body" and text ~= "" then
    set_key(txn, rule, text, "b")
  elseif rule.key == "json" and readable then
    local at = at_path(head, rule.path)
    if not at or at == 0 then return end
    local ends = after_value(head, at)
    local value = ends and head:sub(at, ends - 1) or ""
    if not ends and rule.first > 0 and #head - at > rule.first then value = head:sub(at) end
    value = value:gsub('^"', "", 1)
    if ends then value = value:gsub('"$', "", 1) end
    if value ~= "" then set_key(txn, rule, value, "j") end
  end
end

local function key_of_grpc(txn, rules)
  local model, key, is_end = read_message(txn.f:req_body() or "")
  local coded = header(txn, "grpc-encoding")
  if not model then
    if rules.sequences then
      refuse(txn, "neither the model nor a sequence_id can be read in the "
        .. (coded and "compressed message" or "message"))
    end
    return
  end
  local rule = rules.by_model[model] or rules.rest
  if not rule then return end
  if rule.key == "header" then
    begin(txn, rule)
  elseif rule.key == "sequence" then
    if key then
      set_sequence(txn, rule, key, is_end)
    elseif key == nil and not rule.usual then
      refuse(txn, "no sequence_id can be read in the head of the message")
    end
  end
end

core.register_action("tarn_key", { "http-req" }, function(txn, door)
  local rules = rules_now(txn)
  if door == "http" then key_of_http(txn, rules) else key_of_grpc(txn, rules) end
end, 1)

-- -- waiting -------------------------------------------------------------------------------------
-- How many may wait is limited in haproxy.cfg: a client that leaves ends its coroutine at once, so
-- a number that is kept here would never fall.

core.register_action("tarn_wait_filled", { "http-req" }, function(txn)
  while not txn:get_var("proc.tarn_filled") and is_young() do core.msleep(20) end
end)

core.register_action("tarn_hold", { "http-req" }, function(txn, backend, seconds)
  local ends_s = now_s() + tonumber(seconds)
  while txn.f:nbsrv(backend) == 0 and now_s() < ends_s do core.msleep(50) end
end, 2)
