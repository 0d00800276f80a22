@testable import LuaBindings

/// Everything that a script reaches, found from its global table, the objects that it can make, and the metatables of these.
enum Reachable {
    /// The names of the properties and methods of objects, whose keys Lua cannot list.
    static var members: [String] {
        let properties = [
            OperationClass.Property.names, GroupOperationClass.Property.names, OperationQueueClass.Property.names,
            ErrorClass.Property.names,
            ObservationClass.Property.names, ChannelClass.Property.names, ProcessClass.Property.names,
        ]
        let functions = [
            OperationClass.Function.names, BlockOperationClass.Function.names, InvocationOperationClass.Function.names,
            GroupOperationClass.Function.names, OperationQueueClass.Function.names, ScriptedFunctions.Method.names,
            ObservationClass.Function.names, ChannelClass.Function.names, TimerClass.Function.names, ProcessClass.Function.names,
            StreamClass.Function.names, ["__gc", "__index", "__metatable", "close", "lines", "read", "write"],
        ]
        return Set((properties + functions).joined()).sorted()
    }

    /// A chunk. Its arguments are the names of members with blanks between them, and the running operation or nil. Its result is a table: for each
    /// name, the type and address of a function, a table or an object, or the value of anything else.
    static let walk = """
        local members, op = ...
        local found, seen, todo, first = {}, {}, {}, 1
        local function visit(path, value, depth)
            local kind = type(value)
            if kind == "string" or kind == "number" or kind == "boolean" then
                found[path] = kind .. " " .. tostring(value)
            elseif value ~= nil and not seen[value] then
                seen[value] = true
                found[path] = kind == "userdata" and kind or string.format("%s %p", kind, value)
                todo[#todo + 1] = { path, value, depth }
            end
        end
        local function byName(a, b)
            if type(a) == type(b) and (type(a) == "string" or type(a) == "number") then return a < b end
            return tostring(a) < tostring(b)
        end
        local function expand(path, value, depth)
            visit(path .. "<metatable>", getmetatable(value), depth)
            if type(value) == "table" then
                local keys = {}
                for key in next, value do keys[#keys + 1] = key end
                table.sort(keys, byName)
                for _, key in ipairs(keys) do
                    if type(key) == "table" or type(key) == "function" then visit(path .. "<key>", key, depth) end
                    local isName = type(key) == "string" or type(key) == "number"
                    visit(path .. "." .. (isName and key or "<" .. type(key) .. ">"), rawget(value, key), depth)
                end
            elseif type(value) == "userdata" and depth < 2 then
                for name in members:gmatch "%S+" do
                    local has, member = pcall(function() return value[name] end)
                    local kind = type(member)
                    if has and (kind == "function" or kind == "table" or kind == "userdata") then visit(path .. ":" .. name, member, depth + 1) end
                end
            end
        end
        local function globals() return load("return _ENV")() end
        visit("_G", _G, 0)
        while todo[first] do
            expand(table.unpack(todo[first]))
            first = first + 1
        end
        for name, value in pairs { string = "", number = 1, boolean = true, ["function"] = print, thread = coroutine.create(print) } do
            visit("<metatable of a " .. name .. ">", getmetatable(value), 0)
        end
        visit("<metatable of nil>", getmetatable(nil), 0)
        visit("<globals of load>", globals(), 0)
        visit("<globals of load in a coroutine>", coroutine.wrap(globals)(), 0)
        visit("<loaded>", require "_G", 0)
        visit("<iterator>", (("x"):gmatch "x"), 0)
        visit("<codes>", (utf8.codes "x"), 0)
        visit("<wrapped>", coroutine.wrap(print), 0)
        visit("<coroutine>", coroutine.create(print), 0)
        visit("<operation>", op or opscript.Operation.new(print), 0)
        visit("<queue>", opscript.OperationQueue.new(), 0)
        visit("<main queue>", opscript.OperationQueue.main, 0)
        visit("<block>", opscript.BlockOperation.new(print), 0)
        visit("<invocation>", opscript.InvocationOperation.new({ x = print }, "x"), 0)
        visit("<group>", opscript.GroupOperation.new(), 0)
        visit("<channel>", opscript.channel(), 0)
        local timer = opscript.after(3600, print)
        visit("<timer>", timer, 0)
        timer:cancel()
        local observed = opscript.Operation.new(print)
        visit("<observation>", observed:observe("name", print), 0)
        local failing = opscript.Operation.new(function() error "x" end)
        failing:start()
        visit("<error>", failing.error, 0)
        local hasFrozen, frozen = pcall(opscript.freeze, { {} })
        if hasFrozen then visit("<frozen>", frozen, 0) end
        while todo[first] do
            expand(table.unpack(todo[first]))
            first = first + 1
        end
        return found
        """
}
