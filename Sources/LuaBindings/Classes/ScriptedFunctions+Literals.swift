extension ScriptedFunctions {
    /// The function that shows values in messages, for the other sources.
    static let literals: StaticString = #"""
        local longestText <const>, mostFields <const> = 40, 4

        -- A short literal of a value, for messages.
        local function literal(value, isInside)
          local kind = type(value)
          if kind == "string" then
            -- Cuts no character of UTF-8 in two.
            local text = #value <= longestText and value or gsub(sub(value, 1, longestText), "[\xC0-\xFF][\x80-\xBF]*$", "") .. "…"
            return (gsub(("%q"):format(text), "\\\n", "\\n"))
          elseif kind ~= "table" then
            return tostring(value)
          elseif isInside then
            return "{…}"
          end
          local fields, length = {}, 0
          for key, field in next, value do
            if #fields == mostFields then
              fields[#fields + 1] = "…"
              break
            end
            local text = literal(field, true)
            if key == length + 1 then
              length = key
            elseif type(key) == "string" and find(key, "^[%a_][%w_]*$") then
              text = key .. " = " .. text
            else
              text = "[" .. literal(key, true) .. "] = " .. text
            end
            fields[#fields + 1] = text
          end
          return #fields == 0 and "{}" or "{ " .. concat(fields, ", ") .. " }"
        end

        local functions = ...
        functions.literal = literal
        """#
}
