import LuaBindings
import TestSupport
import Testing

/// The settings that workers inherit from the main state.
@Suite struct PathTests {
    @Test func changesOfThePathReachWorkers() throws {
        let first = try ModuleDirectory(["one": "return 'first'"]), second = try ModuleDirectory(["two": "return 'second'"])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(first.prelude)
            #expect(
                try runtime.results(of: runtime.operation("return queue:addOperation(function() return (require 'one') end)")) == ["first"])
            try runtime.run(second.prelude)
            #expect(
                try runtime.results(of: runtime.operation("return queue:addOperation(function() return (require 'two') end)")) == ["second"]
            )
            try runtime.run("package.cpath = 'nowhere/?.so'")
            #expect(
                try runtime.results(of: runtime.operation("return queue:addOperation(function() return package.cpath end)")) == [
                    "nowhere/?.so"
                ])
        }
    }

    @Test func argumentsReachWorkers() throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.setArguments(["opscript", "-W", "script.lua", "a", "b"], script: 2)
            #expect(
                try runtime.run("return arg[0], arg[1], arg[2], arg[-1], arg[-2], #arg") == ["script.lua", "a", "b", "-W", "opscript", 2])
            let operation = try runtime.operation("return queue:addOperation(function() return arg[0], arg[2], arg[-2] end)")
            #expect(try runtime.results(of: operation) == ["script.lua", "b", "opscript"])
            try runtime.run("arg = { 'changed' }")
            #expect(try runtime.results(of: runtime.operation("return queue:addOperation(function() return arg[1] end)")) == ["changed"])
        }
    }

    @Test("A change of an element of `arg` after the first operation reaches workers")
    func changedArgumentsReachWorkers() throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.setArguments(["opscript", "script.lua", "a"], script: 1)
            let body = "return queue:addOperation(function() return arg[1], #arg end)"
            #expect(try runtime.results(of: runtime.operation(body)) == ["a", 1])
            try runtime.run("arg[1] = 'late'")
            #expect(try runtime.results(of: runtime.operation(body)) == ["late", 1])
            try runtime.run("arg[2] = 'more'")
            #expect(try runtime.results(of: runtime.operation(body)) == ["late", 2])
        }
    }

    @Test("A script in one file, whose modules are in package.preload, works in bodies, captured and required")
    func loadersReachWorkers() throws {
        try script(
            workers: 1,
            """
            queue:addOperation(function() return print end):waitUntilFinished()
            package.preload["app.util"] = function(name, where)
              loads = (loads or 0) + 1
              return { double = function(x) return 2 * x end, name = name, where = where }
            end
            package.preload["app.main"] = function()
              local util = require "app.util"
              return { util = util, run = function(x) return util.double(x) + 1 end }
            end
            local main = require "app.main"
            local function result(f)
              local op = queue:addOperation(f)
              op:waitUntilFinished()
              assert(not op.error, op.error)
              return table.unpack(op.results, 1, op.results.n)
            end
            assert(result(function() return main.run(3) end) == 7)
            local six, isOne, name, where, loads = result(function()
              local util = require "app.util"
              return util.double(3), main.util == util, util.name, util.where, loads
            end)
            assert(six == 6 and isOne and name == "app.util" and where == ":preload:" and loads == 1)
            package.preload["app.util"] = nil
            package.preload.late = function() return "late" end
            assert(result(function() return require "late" end) == "late")
            assert(result(function() return package.preload["app.util"] == nil and package.preload.late ~= nil end) == true)
            """)
    }

    @Test("Searchers that a script adds, moves or removes hold in operations made after that")
    func searchersReachWorkers() throws {
        try script(
            workers: 1,
            """
            local function result(f, ...)
              local op = queue:addOperation(f, ...)
              op:waitUntilFinished()
              return op.error and tostring(op.error) or op.result
            end
            local function load(_, name) return require(name) end
            local sources = { ["made.one"] = "return 'one'" }
            table.insert(package.searchers, 2, function(name)
              if sources[name] then return assert(load_source(sources[name])), "made" end
              return "\\n\\tno made '" .. name .. "'"
            end)
            load_source = _G.load
            assert(result(load, "made.one") == "one")
            assert(result(load, "made.two"):find("no made 'made.two'", 1, true))
            assert(result(function() return #package.searchers end) == #package.searchers)
            table.remove(package.searchers, 2)
            assert(not result(load, "made.three"):find("no made", 1, true))
            assert(result(load, "made.one") == "one", "it is loaded already")
            package.searchers[3] = nil
            assert(result(function() return #package.searchers end) == #package.searchers)
            assert(result(function() return package.searchers[3] == nil end) == true)
            """)
    }

    @Test("A loader that cannot be sent is an error where an operation needs it")
    func unsendableLoadersSaySo() throws {
        try script(
            workers: 1,
            """
            local file <close> = io.tmpfile()
            package.preload.fine = function() return "fine" end
            package.preload.bad = function() return file end
            table.insert(package.searchers, coroutine.wrap(function() end))
            local function message(name)
              local op = queue:addOperation(function(_, name) return require(name) end, name)
              op:waitUntilFinished()
              return op.error and tostring(op.error) or op.result
            end
            assert(message "fine" == "fine")
            local bad = message "bad"
            assert(bad:find("package.preload['bad'] did not reach this operation: cannot send upvalue 'file'", 1, true), bad)
            assert(bad:find("opscript.prelude", 1, true), bad)
            local missing = message "missing"
            assert(missing:find("package.searchers['5'] did not reach this operation", 1, true), missing)
            """)
    }

    @Test func argumentsThatCannotBeSentAreLeftOut() throws {
        try withRuntime { runtime throws in
            try runtime.run("arg = { io.tmpfile() }")
            #expect(try runtime.results(of: runtime.operation("return queue:addOperation(function() return 1 end)")) == [1])
        }
    }

    @Test func modulesRequiredOutsideAreThereInABody() throws {
        let modules = try ModuleDirectory([
            "shape": "local S = { thread = coroutine.create(print) } function S.area() return 12 end return S"
        ])
        try withRuntime { runtime throws in
            try runtime.run(modules.prelude)
            let operation = try runtime.operation(
                "local shape = require 'shape'; return queue:addOperation(function() return shape.area(), shape == require 'shape' end)")
            #expect(try runtime.results(of: operation) == [12, true])
            try runtime.require("shape", as: "loaded")
            #expect(try runtime.run("return loaded.area()") == [12])
        }
    }
}
