# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""A program for Apache (Lua) that reads names in a token, and its type.

Apache's rules read claims as variables, whose names have no case and few signs: of sub and SUB, of a-b and a:b the last one counts.
"""

from __future__ import annotations

import re

PATH = "/etc/apache2/deephdc/token_names.lua"
# What a token's header may say, where a site says nothing else; "none" stands for a token that says nothing.
TYPES = ("at+jwt", "JWT", "none")
TYPE = re.compile(r"[A-Za-z0-9+._-]+")
# A proof of a login has this claim, and so have Dex's tokens for programs, which are such proofs. They are let in where a provider's types
# have the word.
OF_LOGIN, ID_TOKEN = "at_hash", "id_token"

SCRIPT = r"""-- Made by deephdc.accelerators: changes are lost with its next run.
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

-- The names by how Apache has them; of other objects, too, if they are given. Nothing where two of one object, or two spellings, are one.
local function unique(names, before)
  local seen, all = {}, before or {}
  for _, name in ipairs(names or {}) do
    local variable = plain(name)
    if seen[variable] or (all[variable] or name) ~= name then return nil end
    seen[variable], all[variable] = name, name
  end
  return names and all
end

-- Whether none of the names that rules have is written in another way, or is one below another claim: of "a.b" and "a:b", the module
-- takes the claim a for the first part.
local function exact(seen, wanted)
  for _, name in ipairs(wanted) do
    if (seen[plain(name)] or name) ~= name then return false end
    for at in name:gmatch('()[.:]') do
      local above = name:sub(1, at - 1)
      if seen[plain(above)] == above then return false end
    end
  end
  return true
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
  local seen = text and unique((members(text)))
  return granted(r, seen and exact(seen, {...}))
end

-- "Require session-names NAME...": the same of what the provider said at the login.
function session_names(r, ...)
  local proof, more = r.subprocess_env['OIDC_id_token_payload'], r.subprocess_env['OIDC_userinfo_json']
  local seen = r.user and proof and unique((members(proof)))
  if seen and more then seen = unique(members(more), seen) end
  return granted(r, seen and exact(seen, {...}))
end

-- "Require token-type TYPE...": the token says that it is one of these; none stands for a token that says nothing.
function token_type(r, ...)
  local text = r.user and part(r, 1)
  local names, texts = members(text or '')
  local seen = unique(names)
  local good = false
  if text and seen then
    local named = seen['typ']
    local kind = named and (texts[named] or ''):lower():gsub('^application/', '') or 'none'
    for _, one in ipairs({...}) do good = good or kind == one:lower() end
  end
  return granted(r, good)
end

-- A filter for a provider's answer about a token: with a name twice, or another spelling of a name that rules have, it is no answer.
function answer_names(r)
  coroutine.yield()
  local parts = {}
  while bucket do
    parts[#parts + 1] = bucket
    coroutine.yield('')
  end
  local text = table.concat(parts)
  local seen, wanted = unique((members(text))), {}
  for name in (r.subprocess_env['ANSWER_NAMES'] or ''):gmatch('%S+') do wanted[#wanted + 1] = name end
  coroutine.yield(seen and exact(seen, wanted) and text or '{}')
end
"""
