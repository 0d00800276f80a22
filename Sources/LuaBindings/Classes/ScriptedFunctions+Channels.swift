extension ScriptedFunctions {
    /// The function that receives from several channels: `merge`.
    static let channels: StaticString = #"""
        -- `opscript.merge(channel, …)` and `opscript.merge { name = channel, … }`.
        local function merge(first, ...)
          local function refuse(number, found) error(("bad argument #%d to 'merge' (%s)"):format(number, found), 4) end
          local function isChannel(value) return type(value) == "userdata" and find(tostring(value), "^Channel") end
          local channels = {}
          if type(first) == "table" and select("#", ...) == 0 then
            for key, channel in pairs(first) do
              if not isChannel(channel) then refuse(1, ("Channel expected at [%s], got %s"):format(tostring(key), type(channel))) end
              if key == "timeout" then refuse(1, "a channel cannot be named 'timeout', which opscript.select returns when the time has run out") end
              channels[key] = channel
            end
          else
            for number = 1, 1 + select("#", ...) do
              local channel = first
              if number > 1 then channel = select(number - 1, ...) end
              if not isChannel(channel) then refuse(number, "Channel expected, got " .. type(channel)) end
              channels[number] = channel
            end
          end
          local receive
          -- Returns the values of a message. The first is nil if the channel is closed.
          local function each(which, value, ...)
            if value ~= nil then return which, value, ... end
            channels[which] = nil
            return receive()
          end
          function receive()
            if next(channels) == nil then return nil end
            return each(choose(channels))
          end
          return receive
        end

        local functions = ...
        functions.merge = merge
        """#
}
