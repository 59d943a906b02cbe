-- Made by deephdc.accelerators: changes are lost with its next run.
require 'apache2'

-- The names of a JSON object in their order, and those values that are plain texts. Nothing where it can't be read without doubt.
local function members(text)
  local names, texts, depth, at = {}, {}, 0, 1
  text = text:gsub('\\/', '/')  -- some write a slash so; no quote comes after that backslash
  while true do
    local from = text:find('["{}%[%]]', at)
    if not from then return depth == 0 and names or nil, texts end
    local sign = text:sub(from, from)
    if sign == '"' then
      local to = from
      repeat
        to = text:find('"', to + 1, true)
        if not to then return nil end
        local before = to - 1
        while text:byte(before) == 92 do before = before - 1 end
      until (to - before) % 2 == 1
      if depth == 1 and text:find('^%s*:', to + 1) then
        local name = text:sub(from + 1, to - 1)
        -- With an escape two spellings would be one name.
        if name:find('\\', 1, true) then return nil end
        names[#names + 1] = name
        texts[name] = text:match('^%s*:%s*"([^"\\]*)"', to + 1)
      end
      at = to + 1
    else
      depth = depth + ((sign == '{' or sign == '[') and 1 or -1)
      at = from + 1
    end
  end
end

-- A name as mod_auth_openidc makes a variable of it (oidc_normalize_header_name), without case.
local function plain(name)
  return (name:lower():gsub("[^%w!#$%%&'*+.^_`|~-]", '-'))
end

local function unique(names)
  local seen = {}
  for _, name in ipairs(names) do
    if seen[plain(name)] then return nil end
    seen[plain(name)] = name
  end
  return seen
end

-- A part of the request's token as text: 1 is its header, 2 its claims.
local function part(r, number)
  local token = (r.headers_in['Authorization'] or ''):match('^%S+ +(%S+)%s*$')
  local parts = token and {token:match('^([%w_-]+)%.([%w_-]+)%.[%w_-]+$')} or {}
  return parts[number] and r:base64_decode((parts[number]:gsub('-', '+'):gsub('_', '/')))
end

-- Before the module has found a user, other rules decide.
local function granted(r, good)
  if not r.user then return apache2.AUTHZ_DENIED_NO_USER end
  return good and apache2.AUTHZ_GRANTED or apache2.AUTHZ_DENIED
end

-- "Require token-names NAME...": no name is there twice, as variables have them, and none of these is written in another way.
function token_names(r, ...)
  local text = r.user and part(r, 2)
  local names = text and members(text)
  local seen = names and unique(names)
  if seen then
    for _, name in ipairs({...}) do
      local found = seen[plain(name)]
      if found and found ~= name then seen = nil break end
    end
  end
  return granted(r, seen)
end

-- "Require token-type TYPE...": the token says that it is one of these; none stands for a token that says nothing.
function token_type(r, ...)
  local text = r.user and part(r, 1)
  local names, texts = members(text or '')
  local seen = names and unique(names)
  local good = false
  if text and seen then
    local named = seen['typ']
    local kind = named and (texts[named] or ''):lower():gsub('^application/', '') or 'none'
    for _, one in ipairs({...}) do good = good or kind == one:lower() end
  end
  return granted(r, good)
end

-- A filter for a provider's answer about a token: with a name twice it is no answer.
function answer_names(r)
  coroutine.yield()
  local parts = {}
  while bucket do
    parts[#parts + 1] = bucket
    coroutine.yield('')
  end
  local text = table.concat(parts)
  local names = members(text)
  -- As long as before, as its length is said already.
  coroutine.yield((names and unique(names)) and text or (' '):rep(#text))
end
