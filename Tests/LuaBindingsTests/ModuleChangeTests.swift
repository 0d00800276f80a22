import LuaBindings
import TestSupport
import Testing

/// Changes that a script has made in modules and libraries hold in the operations that it adds after that.
@Suite struct ModuleChangeTests {
    private let modules: ModuleDirectory

    init() throws {
        modules = try ModuleDirectory([
            "log": """
            loads = (loads or 0) + 1
            local log = { level = 1, handlers = {}, loads = loads }
            function log.info() return log.level end
            return log
            """,
            "outer": "local log = require 'log' return { level = function() return log.level end }",
            "named": "return require 'core'", "core": "return require 'outer'", "call": "return require 'outer'.level",
            "kinds": "return {}", "filler": "require 'kinds'.list = { 'first' }", "all": "require 'kinds' require 'filler' return {}",
            "counter": "return { n = 0 }", "trims": "return function(s) return s:trim() end",
            "early": "local trim = string.trim return function(s) return trim and trim(s) or 'none' end",
            "strx": "function string.trim(s) return (s:match '^%s*(.-)%s*$') end return string",
            "base": "return {}", "ext": "local base = require 'base' base.f = function() return 1 end return base",
            "early2": "return { trim = require 'early' }",
        ])
    }

    /// Runs a script with `result(f, ...)`, which returns what an operation returns, or its error.
    private func run(_ source: String) throws {
        try script(
            workers: 1,
            """
            \(modules.prelude)
            local function result(f, ...)
              local op = queue:addOperation(f, ...)
              op:waitUntilFinished()
              if op.error then return tostring(op.error) end
              return table.unpack(op.results, 1, op.results.n)
            end
            \(source)
            """)
    }

    @Test("Fields that the script has set, added or removed, in a module or in a table of it, reach the body")
    func fieldsOfModules() throws {
        try run(
            """
            local log = require "log"
            assert(result(function() return log.level end) == 1)
            log.level, log.handlers.double, log.loads = 2, function(x) return 2 * x end, nil
            local level, double, loads = result(function() return log.level, log.handlers.double(4), log.loads end)
            assert(level == 2 and double == 8 and loads == nil, level)
            local info = log.info
            assert(result(function() return info() end) == 2)
            assert(result(function() return require "log".level end) == 2)
            """)
    }

    @Test("A change of a module that another module has required reaches a body that uses the other one")
    func requiredModules() throws {
        try run(
            """
            local outer, log = require "outer", require "log"
            log.level = 3
            assert(result(function() return outer.level() end) == 3)
            """)
    }

    @Test("A change reaches a body that uses a module with several names, or a function, which has required the changed module")
    func requiredByModulesWithSeveralNames() throws {
        try run(
            """
            local named, call, log = require "named", require "call", require "log"
            log.level = 4
            assert(result(function() return named.level() end) == 4)
            assert(result(function() return call() end) == 4)
            assert(result(function() return require "call"() end) == 4)
            """)
    }

    @Test("A change in a table that another module has put into the changed one reaches a body that uses only the latter")
    func tablesOfOtherModules() throws {
        try run(
            """
            local all, kinds = require "all", require "kinds"
            kinds.list[2] = "second"
            local function body() return table.concat(kinds.list, " ") end
            assert(result(body) == "first second", result(body))
            assert(result(function() return table.concat(require "kinds".list, " ") end) == "first second")
            local names = {}
            for _, capture in ipairs(opscript.captures(body)) do names[#names + 1] = capture.name end
            assert(table.concat(names, " ") == "upvalue 'kinds' module 'kinds'.list[2]", table.concat(names, " "))
            kinds.list[2] = nil
            assert(result(function() return all ~= nil and #kinds.list end) == 1)
            """)
    }

    @Test("A change lasts as long as the operation, and is what the script had when it added the operation")
    func changesEndWithTheOperation() throws {
        try run(
            """
            local log, ops = require "log", {}
            queue.isSuspended = true
            for level = 3, 1, -1 do
              log.level = level
              ops[level] = queue:addOperation(function() return log.level end)
            end
            queue.isSuspended = false
            for level = 1, 3 do
              ops[level]:waitUntilFinished()
              assert(ops[level].result == level)
            end
            assert(result(function() return log.level end) == 1)
            """)
    }

    @Test("Functions that the script adds to string, table and math, or puts in place of others, are there in a body")
    func libraries() throws {
        try run(
            """
            local function use(_, s) return s:trim() end
            assert(result(function(_, s) return s:upper() end, "a") == "A")
            function string.trim(s) return (s:gsub("^%s+", ""):gsub("%s+$", "")) end
            function table.map(t, f) local r = {} for i, v in ipairs(t) do r[i] = f(v) end return r end
            math.tau = 2 * math.pi
            local rep = string.rep
            string.rep = function(s, n) return "<" .. rep(s, n) .. ">" end
            assert(result(use, " a ") == "a")
            assert(result(use, " b ") == "b")
            assert(result(function() return string.trim(" a ") end) == "a")
            assert(result(function() return table.concat(table.map({ 1, 2 }, function(x) return 2 * x end), " ") end) == "2 4")
            assert(result(function() return math.tau // 1 end) == 6)
            assert(result(function() local s = string return s.rep("x", 2) end) == "<xx>")
            assert(result(function() return ("x"):rep(2) end) == "<xx>")
            local trims = require "trims"
            assert(result(function() return trims " a " end) == "a")
            string.trim, table.map, math.tau, string.rep = nil, nil, nil, rep
            assert(result(function(_, s) return s.trim == nil and table.map == nil and math.tau == nil end, "") == true)
            assert(result(function() return ("x"):rep(2) end) == "xx")
            """)
    }

    @Test("A module stays loaded in a worker although the script has changed a library")
    func modulesStayLoaded() throws {
        try run(
            """
            function string.trim(s) return s:match "^%s*(.-)%s*$" end
            local function body() local m = require "counter" m.n = m.n + 1 return (" a "):trim() .. m.n end
            assert(result(body) == "a1")
            assert(result(body) == "a2")
            """)
    }

    @Test("A module that keeps a function of a library while it is loaded is loaded again for an operation with another function")
    func functionsThatModulesKeep() throws {
        try run(
            """
            local function early(_, s) return require "early"(s) end
            local function early2(_, s) return require "early2".trim(s) end
            for _, use in ipairs { early, early2 } do
              assert(result(use, " a ") == "none")
              function string.trim(s) return s:match "^%s*(.-)%s*$" end
              assert(result(use, " a ") == "a")
              string.trim = nil
              assert(result(use, " a ") == "none")
            end
            """)
    }

    @Test("Fields that another module's loader has added to a library or a module are there, by whichever name a body requires it")
    func loadersThatExtendOthers() throws {
        try run(
            """
            assert(result(function() return math.pi > 3 end) == true)
            require "strx"
            assert(result(function(_, s) return s:trim() end, " a ") == "a")
            assert(result(function() return string.trim(" b ") end) == "b")
            require "base" require "ext"
            assert(result(function() return require("base").f() end) == 1)
            assert(result(function() return require("ext").f() end) == 1)
            local base = require "base"
            assert(result(function() return base.f() end) == 1)
            """)
    }

    @Test("A body that has removed a module and loaded another one leaves the shared one to others, with the data of its loader")
    func removedModules() throws {
        try run(
            """
            local function data() return select(2, require "counter") end
            local path = result(data)
            assert(path:find "counter.lua$", path)
            local own = result(function()
              require "counter"
              package.loaded.counter = nil
              package.preload.counter = function() return { n = "own" } end
              return require("counter").n
            end)
            assert(own == "own")
            assert(result(function() return require("counter").n end) == 0)
            assert(result(data) == path)
            """)
    }

    @Test("What the script adds to a module before its first operation is no part of the module elsewhere")
    func fieldsBeforeTheFirstOperation() throws {
        try run(
            """
            local log = require "log"
            function log.two() return 2 end
            log.list = { 5 }
            log.late = io.tmpfile()
            local two, list = log.two, log.list
            assert(result(function() return two() end) == 2 and result(function() return list[1] end) == 5)
            local ok, message = pcall(function() queue:addOperation(function() return log.level end) end)
            assert(not ok and message:find("cannot send module 'log'.late (a userdata)", 1, true), message)
            log.late = nil
            assert(result(function() return log.two() end) == 2 and result(function() return log.list[1] end) == 5)
            """)
    }

    @Test("A changed field that cannot be sent is an error that names the module, the field and the remedy")
    func unsendableFields() throws {
        try run(
            """
            local log = require "log"
            log.handlers.file = io.tmpfile()
            local ok, message = pcall(function() queue:addOperation(function() return log.level end) end)
            assert(not ok)
            assert(message:find("cannot send module 'log'.handlers.file (a userdata), which the script has set after", 1, true), message)
            assert(message:find("set it in opscript.prelude instead, or open it inside the body", 1, true), message)
            string.file = io.tmpfile()
            ok, message = pcall(function() queue:addOperation(function() return string.file end) end)
            assert(not ok and message:find("module 'string'.file", 1, true), message)
            assert(result(function() return string.upper "a" end) == "A")
            """)
    }

    @Test("A change goes on to the operations that a body adds, and does not come back with its results")
    func nestedOperations() throws {
        try run(
            """
            local log = require "log"
            log.level = 2
            local function inner()
              local op = opscript.OperationQueue.new():addOperation(function() return log.level end)
              op:waitUntilFinished()
              local level = op.result
              log.level = 5
              return level, function() return log.level end
            end
            local level, read = result(inner)
            assert(level == 2 and log.level == 2 and read() == 2)
            """)
    }

    @Test("opscript.captures shows what has changed, how large it is, and from where functions and modules are")
    func captures() throws {
        try run(
            """
            local log = require "log"
            log.level, log.text, log.handlers.late = 2, ("x"):rep(1000), function() end
            local function helper() return log.info() end
            local by, list = {}, opscript.captures(function() return helper() end)
            local total = 0
            for _, capture in ipairs(list) do by[capture.name], total = capture, total + capture.size end
            assert(by["upvalue 'helper'"].from:find("^[^:]*:%d+$"), by["upvalue 'helper'"].from)
            assert(by["upvalue 'log'"].from == package.searchpath("log", package.path))
            assert(by["module 'log'.level"].type == "number")
            assert(by["module 'log'.handlers.late"].from)
            assert(by["module 'log'.text"].size > 1000 and by["module 'log'.text"].kind == "value")
            assert(list.size > total)
            """)
    }
}
