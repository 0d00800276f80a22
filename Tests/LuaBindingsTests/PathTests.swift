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
