import LuaBindings
import TestSupport
import Testing

/// The globals of one operation do not exist in the next one.
@Suite struct BodyGlobalTests {
    @Test(arguments: [
        "leak = 1", "_G.leak = 1", "rawset(_G, 'leak', 1)", "load('leak = 1')()", "load('_G.leak = 1')()", "load('_ENV.leak = 1')()",
        "setmetatable(_G, { __index = function() return 1 end })", "setmetatable(_G, nil)", "getmetatable(_G).__index = { leak = 1 }",
        "local f = assert(io.open(os.tmpname(), 'w')); f:close(); leak = 1", "debug.getregistry()[2].leak = 1",
        "coroutine.wrap(function() leak = 1 end)()", "pcall(function() leak = 1 error 'x' end)", "_ENV = { leak = 1 }; leak = 2",
        "string.gsub('x', 'x', function() leak = 1 end)", "leak = 1 error 'x'",
    ])
    func nothingIsLeftFor(_ source: String) throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(
                """
                local first = queue:addOperation(load(...))
                first:waitUntilFinished()
                _ = first.error
                """, arguments: [.string(source)])
            let second = try runtime.operation(
                "return queue:addOperation(function() return leak, _G.leak, rawget(_G, 'leak'), load('return leak')(), type(print) end)")
            #expect(try runtime.results(of: second) == [.nil, .nil, .nil, .nil, "function"])
        }
    }

    @Test func loadAndDofileSeeTheOperationsGlobals() throws {
        try script(
            """
            helper = function() return 'came along' end
            local o = queue:addOperation(function()
                local _ = helper
                own = 'own'
                local path = os.tmpname()
                local f = io.open(path, 'w')
                f:write 'made_by_file = 1 return own, helper()' f:close()
                local a, b = dofile(path)
                local c, d = loadfile(path)()
                os.remove(path)
                return a, b, c, d, load('return own')(), made_by_file, _G == _ENV
            end)
            o:waitUntilFinished()
            local r = o.results
            assert(r[1] == 'own' and r[2] == 'came along' and r[3] == 'own' and r[4] == 'came along' and r[5] == 'own', o.error)
            assert(r[6] == 1 and r[7] == true and made_by_file == nil)
            """)
    }

    @Test func theMainStatesGlobalsAreItsOwn() throws {
        try script(
            """
            counter = 1
            local o = queue:addOperation(function() counter = counter + 1; fresh = true; return counter end)
            o:waitUntilFinished()
            assert(o.result == 2 and counter == 1 and fresh == nil)
            """)
    }

    @Test func aWaitInABodyKeepsItsGlobals() throws {
        try script(
            """
            local o = OperationQueue.main:addOperation(function() return 1 end)
            local outer = Operation.new(function() mine = 5; local made = load 'mine = mine + 1'; made(); return mine end)
            outer:start()
            assert(outer.result == 6 and mine == 6)
            mine = nil
            o:waitUntilFinished()
            """)
    }

    @Test("A module that assigns globals is loaded for each operation, in the operation's globals")
    func modulesWithGlobals() throws {
        let modules = try ModuleDirectory([
            "counter": "loads = (loads or 0) + 1; local C = { loads = loads } function C.seen() return loads, x end return C"
        ])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(modules.prelude)
            for _ in 1...2 {
                let operation = try runtime.operation(
                    "return queue:addOperation(function() x = 'own'; local c = require 'counter'; return c.loads, c.seen() end)")
                #expect(try runtime.results(of: operation) == [1, 1, "own"])
            }
        }
    }

    /// A body and a script must print the same about their globals.
    @Test(arguments: [
        "local n = {} for name in pairs(_G) do n[#n + 1] = name end table.sort(n) return table.concat(n, ' ')",
        "local n = {} for name in pairs(_ENV) do n[#n + 1] = name end table.sort(n) return table.concat(n, ' ')",
        "local n = {} for name in next, _G do n[#n + 1] = name end table.sort(n) return table.concat(n, ' ')",
        "return load [[local n = 0 for _ in pairs(_G) do n = n + 1 end return n]]()", "return getmetatable(_G)",
        "return getmetatable(_ENV)",
        "return rawget(_G, 'print') == print, _G == _ENV, _G._G == _G, require '_G' == _G",
        "return select(2, debug.getupvalue(function() return print end, 1)) == _G", "return debug.getregistry()[2] == _G",
        "local _G <const> = _ENV return rawget(_G, 'print') == print",
        "return (function() return (function() return _ENV end)() end)() == _G",
    ])
    func aBodySeesWhatAScriptSees(_ source: String) throws {
        try withRuntime(workers: 1) { runtime throws in
            // A fresh state does not have what the runtime of a test adds.
            try runtime.run("Operation, OperationQueue, queue = nil; if not arg then arg = {} end")
            let expected = try runtime.run(source)
            let operation = try runtime.operation(
                "return opscript.OperationQueue.new():addOperation(load(...))", arguments: [.string(source)])
            #expect(try runtime.results(of: operation) == expected)
        }
    }

    /// The upvalues of a stripped function have no names.
    @Test func aStrippedBodySeesWhatAScriptSees() throws {
        try withRuntime(workers: 1) { runtime throws in
            let operation = try runtime.operation(
                """
                local function body() local globals = _ENV return rawget(globals, 'print') == print, getmetatable(globals) end
                return queue:addOperation(load(string.dump(body, true)))
                """)
            #expect(try runtime.results(of: operation) == [true, .nil])
        }
    }

    @Test func aMetatableThatABodySetsActsThereAndOnlyThere() throws {
        try withRuntime(workers: 1) { runtime throws in
            let first = try runtime.operation(
                """
                return queue:addOperation(function()
                  setmetatable(_G, {
                    __index = function(_, name) error('reads ' .. name, 0) end,
                    __newindex = function(_, name) error('assigns ' .. name, 0) end,
                  })
                  local _, read = pcall(function() return undefined end)
                  local _, assigned = pcall(function() made = 1 end)
                  return read, assigned, math.abs(-1)
                end)
                """)
            #expect(try runtime.results(of: first) == ["reads undefined", "assigns made", 1])
            let second = try runtime.operation("return queue:addOperation(function() made = undefined return made, getmetatable(_G) end)")
            #expect(try runtime.results(of: second) == [.nil, .nil])
        }
    }

    @Test func whatABodyHasRemovedOrReplacedGoesOnToItsOperations() throws {
        try script(
            """
            local o = queue:addOperation(function()
                _G.print = nil
                rawset(_G, 'made', 5)
                setmetatable(_G, { __index = function(_, name) return name == 'late' and 6 or nil end })
                local inner = opscript.OperationQueue.new():addOperation(function() return print == nil, made, late, type(pairs) end)
                inner:waitUntilFinished()
                return table.unpack(inner.results)
            end)
            o:waitUntilFinished()
            local r = o.results
            assert(r[1] == true and r[2] == 5 and r[3] == 6 and r[4] == 'function', tostring(o.error))
            """)
    }

    /// The bodies that require a module see its changes to the globals, and no others do, whichever body loaded it.
    @Test(arguments: ["strict", "outer"])
    func whatAModuleDoesToTheGlobalsIsSeenByThoseThatRequireIt(_ name: String) throws {
        let modules = try ModuleDirectory([
            "strict": """
            setmetatable(_G, { __index = function(_, name) error('undeclared ' .. name, 0) end })
            fromModule = function() return helper() end
            function helper() return 'helped' end
            return {}
            """,
            "outer": "require 'strict'; return {}", "neutral": "return { read = function() return undefined, fromModule end }",
        ])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(modules.prelude)
            for _ in 1...2 {
                let requiring = try runtime.operation(
                    """
                    return queue:addOperation(function(_, name)
                      require(name)
                      return fromModule(), select(2, pcall(function() return undefined end))
                    end, ...)
                    """, arguments: [.string(name)])
                #expect(try runtime.results(of: requiring) == ["helped", "undeclared undefined"])
                let other = try runtime.operation(
                    "return queue:addOperation(function() return undefined, fromModule, helper, getmetatable(_G) end)")
                #expect(try runtime.results(of: other) == [.nil, .nil, .nil, .nil])
            }
            // Requiring a module that was loaded by another module shows its changes, too.
            let inner = try runtime.operation("return queue:addOperation(function() require 'strict' return fromModule() end)")
            #expect(try runtime.results(of: inner) == ["helped"])
            // Modules do not see the metatable.
            let neutral = try runtime.operation("return queue:addOperation(function() return (require 'neutral'.read()) end)")
            #expect(try runtime.results(of: neutral) == [.nil])
        }
    }

    @Test func whatAModuleThatFailsToLoadHasDoneEndsWithTheOperation() throws {
        let modules = try ModuleDirectory(["failing": "setmetatable(_G, { __index = error }) left = 1 error 'fails'"])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(modules.prelude)
            for _ in 1...2 {
                let operation = try runtime.operation(
                    "return queue:addOperation(function() return pcall(require, 'failing'), left, getmetatable(_G) end)")
                #expect(try runtime.results(of: operation).prefix(2) == [false, 1])
                let other = try runtime.operation("return queue:addOperation(function() return left, getmetatable(_G) end)")
                #expect(try runtime.results(of: other) == [.nil, .nil])
            }
        }
    }

    @Test func aMetatableThatAPreludeSetsActsInAllBodies() throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(
                """
                opscript.prelude(function()
                  setmetatable(_G, { __index = function(_, name) error('undeclared ' .. name, 0) end })
                end)
                """)
            for source in ["return undefined", "return _G.undefined", "return load 'return undefined'()"] {
                let operation = try runtime.operation(
                    "return queue:addOperation(function(_, source) return select(2, pcall(load(source))) end, ...)",
                    arguments: [.string(source)])
                #expect(try runtime.results(of: operation) == ["undeclared undefined"])
            }
        }
    }

    /// However the script obtains its globals, they arrive as a table like a script's own, which is shared with no other body.
    @Test(arguments: [
        "local G = _G return queue:addOperation(function() return rawget(G, 'print') == print, getmetatable(G), G == _G end)",
        "local G = _ENV return queue:addOperation(function() return rawget(G, 'print') == print, getmetatable(G), G == _ENV end)",
        "local t = { _G } return queue:addOperation(function() return rawget(t[1], 'print') == print, getmetatable(t[1]), t[1] == _G end)",
        "return queue:addOperation(function(_, G) return rawget(G, 'print') == print, getmetatable(G), true end, _G)",
        """
        local G = _G
        local function look() return rawget(G, 'print') == print, getmetatable(G), G == _G end
        return queue:addOperation(function() return look() end)
        """,
    ])
    func capturedGlobalsAreTheBodys(_ source: String) throws {
        try withRuntime(workers: 1) { runtime throws in
            #expect(try runtime.results(of: runtime.operation(source)) == [true, .nil, true])
        }
    }

    @Test func aStandardGlobalCanBeRemoved() throws {
        try withRuntime(workers: 1) { runtime throws in
            let removing = try runtime.operation(
                """
                return queue:addOperation(function()
                  print, os = nil
                  local inner = opscript.OperationQueue.new():addOperation(function() return print, os end)
                  inner:waitUntilFinished()
                  return print, os, inner.results[1], inner.results[2], type(pairs)
                end)
                """)
            #expect(try runtime.results(of: removing) == [.nil, .nil, .nil, .nil, "function"])
            let next = try runtime.operation("return queue:addOperation(function() return type(print), type(os) end)")
            #expect(try runtime.results(of: next) == ["function", "table"])
        }
    }

    /// It does not matter which modules earlier bodies loaded, and a module leaves alone what the body has changed.
    @Test func eachModuleIsSeenAsIfNothingHadBeenLoadedBefore() throws {
        let modules = try ModuleDirectory([
            "inner": "function fromInner() return 'inner' end", "outer": "require 'inner' function fromOuter() return 'outer' end",
            "first": "version = version or '1'", "second": "version = version or '2' name = 'second'",
            "failsOnce": "late = 'late' attempts = (attempts or 0) if not package.tried then package.tried = true error 'not yet' end",
            "removes": "print = nil", "changes": "tostring = function() return 'changed' end",
        ])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(modules.prelude)
            func results(_ body: String) throws -> [LuaValue] {
                try runtime.results(of: runtime.operation("return queue:addOperation(function() \(body) end)"))
            }
            #expect(try results("require 'inner' return fromInner(), fromOuter") == ["inner", .nil])
            #expect(try results("require 'outer' return fromInner(), fromOuter()") == ["inner", "outer"])
            #expect(try results("require 'first' return version, name") == ["1", .nil])
            #expect(try results("require 'second' return version, name") == ["2", "second"])
            #expect(try results("return (pcall(require, 'failsOnce')), late, require 'failsOnce', late") == [false, "late", true, "late"])
            #expect(try results("require 'removes' return print") == [.nil])
            #expect(try results("require 'changes' return tostring(1)") == ["changed"])
            #expect(try results("return type(print), tostring(1), version, late, fromInner") == ["function", "1", .nil, .nil, .nil])
            #expect(try results("require 'first' version = 'mine' require 'first' return version") == ["mine"])
        }
    }

    @Test func aPreludeMakesWhatAModuleDoesEverybodys() throws {
        let modules = try ModuleDirectory([
            "strict": "setmetatable(_G, { __index = function(_, name) error('undeclared ' .. name, 0) end }) made = 1"
        ])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(modules.prelude)
            // The module may have been loaded before.
            _ = try runtime.results(of: runtime.operation("return queue:addOperation(function() require 'strict' end)"))
            try runtime.run("opscript.prelude(function() require 'strict' end)")
            let body = "return made, select(2, pcall(function() return undefined end))"
            for _ in 1...2 {
                let operation = try runtime.operation("return queue:addOperation(function() \(body) end)")
                #expect(try runtime.results(of: operation) == [1, "undeclared undefined"])
                // The metatable belongs to this body alone.
                let other = try runtime.operation(
                    "return queue:addOperation(function() getmetatable(_G).__index = nil return undefined end)")
                #expect(try runtime.results(of: other) == [.nil])
            }
        }
    }

    @Test func aPreludesMetatableSeesAssignments() throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(
                "opscript.prelude(function() setmetatable(_G, { __newindex = function(_, name) error('assigns ' .. name, 0) end }) end)")
            let operation = try runtime.operation("return queue:addOperation(function() return pcall(function() made = 1 end) end)")
            #expect(try runtime.results(of: operation) == [false, "assigns made"])
        }
    }

    @Test func aModuleThatACompletionBlockOfABodyRequiresIsSeenThere() throws {
        let modules = try ModuleDirectory(["late": "function fromLate() return 'late' end"])
        try withRuntime(workers: 2) { runtime throws in
            try runtime.run(modules.prelude)
            let operation = try runtime.operation(
                """
                return queue:addOperation(function()
                  local seen
                  local inner = opscript.Operation.new(function() end)
                  inner.completionBlock = function()
                    require 'late'
                    seen = fromLate()
                  end
                  opscript.OperationQueue.new():addOperation(inner)
                  while not seen do opscript.sleep(0.001) end
                  return seen
                end)
                """)
            #expect(try runtime.results(of: operation) == ["late"])
        }
    }

    /// Runs a script with `result(f)`, which returns what an operation returns.
    private func run(_ modules: ModuleDirectory, _ source: String) throws {
        try script(
            workers: 1,
            """
            \(modules.prelude)
            local function result(f, ...)
              local op = queue:addOperation(f, ...)
              op:waitUntilFinished()
              assert(not op.error, op.error)
              return table.unpack(op.results, 1, op.results.n)
            end
            \(source)
            """)
    }

    @Test("A module that reads no global of the operation is loaded once for a worker, and others once for each operation")
    func sharedModules() throws {
        let modules = try ModuleDirectory([
            "plain": "local m = { n = 0 } function m.count() m.n = m.n + 1 return m.n, switch end return m",
            "outer": "local plain = require 'plain' return { plain = plain }",
        ])
        try run(
            modules,
            """
            local function count() local m = require "outer".plain return m.count() end
            assert(result(count) == 1 and result(count) == 2)
            local n, switch = result(function() switch = "on" return require "plain".count() end)
            assert(n == 1 and switch == "on")
            assert(result(count) == 3)
            """)
    }

    @Test("A module that a body loads finds the switches and functions that the script or the body has put into globals")
    func globalsOfModules() throws {
        let modules = try ModuleDirectory([
            "switched": """
            local m = { tested = _TEST, strict = _G.STRICT }
            function m.print(x) return print(x) end
            function m.switch() return _TEST end
            return m
            """
        ])
        try run(
            modules,
            """
            local function load() local m = require "switched" return m.tested, m.strict, m.switch() end
            local tested, strict, now = result(load)
            assert(tested == nil and strict == nil and now == nil)
            tested, strict, now = result(function() _TEST = 1 local m = require "switched" _TEST = 2 return m.tested, m.strict, m.switch() end)
            assert(tested == 1 and strict == nil and now == 2)
            _TEST, STRICT = true, "yes"
            tested, strict, now = result(load)
            assert(tested == true and strict == "yes" and now == true)
            local m = require "switched"
            tested, strict, now = result(function() return m.tested, m.strict, m.switch() end)
            assert(tested == true and strict == "yes" and now == true)
            print = function(x) return "mine " .. x end
            assert(result(function() return m.print(1) end) == "mine 1")
            assert(result(function() return require "switched".print(2) end) == "mine 2")
            """)
    }

    @Test("A function of a module that puts names into the globals puts them into those of the operation")
    func exports() throws {
        let modules = try ModuleDirectory([
            "exports": """
            local m = {}
            function m.twice(x) return 2 * x end
            return setmetatable(m, { __call = function(m) for k, v in pairs(m) do rawset(_G, k, v) end end })
            """
        ])
        try run(
            modules,
            """
            assert(result(function() require "exports" () return twice(4) end) == 8)
            assert(result(function() return twice == nil end) == true)
            local m = require "exports"
            assert(result(function() m() return twice(5) end) == 10)
            """)
    }

    @Test(
        "An operation has one module under a name, also after it has changed globals that the module reads",
        arguments: [
            "queue:addOperation(function() local part = require 'part' print = error return require 'part' == part end)",
            "queue:addOperation(function() local whole = require 'whole' print = error return require 'part' == whole.part end)",
            "queue:addOperation(function() local part = whole.part print = error return require 'whole' == whole and require 'part' == part end)",
            "queue:addOperation(function() print = error local part = require 'part' return require 'part' == part and part.print == error end)",
            "queue:addOperation(function() print = error return require 'whole'.part == require 'part' and whole.part == require 'part' end)",
            "queue:addOperation(function() print, package.loaded.part = error, {} return require 'part' == package.loaded.part end)",
            """
            queue:addOperation(function()
              print = error
              local part = require 'part'
              package.loaded.part = nil
              return require 'part' ~= part and require 'part' == require 'part'
            end)
            """,
        ])
    func oneModuleUnderAName(_ addition: String) throws {
        let modules = try ModuleDirectory(["part": "return { print = print }", "whole": "return { part = require 'part' }"])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(modules.prelude)
            for _ in 1...2 {
                let operation = try runtime.operation("local whole = require 'whole' return \(addition)")
                #expect(try runtime.results(of: operation) == [true])
            }
        }
    }

    @Test("The first require of an operation returns where the module was found, and later ones do not")
    func dataOfTheLoader() throws {
        let modules = try ModuleDirectory(["part": "return {}", "whole": "return { part = require 'part' }"])
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(modules.prelude)
            for _ in 1...2 {
                let operation = try runtime.operation(
                    """
                    return queue:addOperation(function()
                      return (select(2, require 'part'):match '[^/]*$'), select('#', require 'part'), select('#', require 'whole')
                    end)
                    """)
                #expect(try runtime.results(of: operation) == ["part.lua", 1, 2])
                let whole = try runtime.operation(
                    "return queue:addOperation(function() return select('#', require 'whole'), select('#', require 'part') end)")
                #expect(try runtime.results(of: whole) == [2, 1])
                let again = try runtime.operation(
                    "return queue:addOperation(function() require 'part' package.loaded.part = nil return select('#', require 'part') end)")
                #expect(try runtime.results(of: again) == [2])
                let captured = try runtime.operation(
                    "local part = require 'part' return queue:addOperation(function() return part ~= nil and select('#', require 'part') end)"
                )
                #expect(try runtime.results(of: captured) == [1])
            }
        }
    }

    @Test("A body that removes a module from package.loaded loads it again, as its file is then")
    func loadedAgain() throws {
        let modules = try ModuleDirectory(["version": "version = 1 return {}"])
        try run(
            modules,
            """
            local path = package.searchpath("version", package.path)
            assert(result(function() require "version" return version end) == 1)
            assert(result(function(_, path)
              require "version"
              local file <close> = io.open(path, "w")
              file:write "version = 2 return {}"
              file:flush()
              package.loaded.version = nil
              require "version"
              return version
            end, path) == 2)
            """)
    }
}
