import LuaBindings
import OpEngine
import Testing

/// A body's changes to the libraries end with the body.
@Suite struct IsolationTests {
    @Test(arguments: [
        "string.rep = nil", "local s = string s.rep = nil", "rawset(string, 'rep', nil)", "getmetatable('').__index.rep = nil",
        "package.loaded.string.rep = nil", "require 'string'.rep = nil", "for _, t in pairs(_G) do if t == string then t.rep = nil end end",
        "debug.setmetatable('', nil)", "getmetatable('').__index = nil", "getmetatable('').__add = print", "string.added = 1",
        "debug.setmetatable(0, { __index = function() return 1 end })", "debug.setmetatable(nil, { __index = {} })",
        "setmetatable(string, { __index = error })", "_G.print = nil", "print = nil", "upvalue.rep = nil", "opscript.sleep = nil",
        "opscript.OperationQueue.new = nil", "package.path = ''", "package.searchers[1] = nil", "load('string.rep = nil')()",
        "math.pi = 3", "table.sort = nil", "package.loaded.string = nil",
    ])
    func aChangeEndsWithTheBody(_ change: String) throws {
        #expect(
            try script(
                workers: 1,
                """
                local upvalue = string
                local function look()
                    return ('x'):rep(2), print ~= nil, string.added, getmetatable('').__add ~= print, pcall(function() return (0).x end),
                        getmetatable(string), opscript.sleep ~= nil, opscript.OperationQueue.new ~= nil, #package.path > 0,
                        #package.searchers, math.pi > 3.1, table.sort ~= nil, require 'string' == string
                end
                local before = queue:addOperation(look)
                before:waitUntilFinished()
                local op = queue:addOperation(function() \(change) end)
                op:waitUntilFinished()
                assert(not op.error, op.error)
                local after = queue:addOperation(look)
                after:waitUntilFinished()
                for i = 1, 14 do
                    if i ~= 6 then assert(before.results[i] == after.results[i], i) end
                end
                return after.results[1], after.results[5]
                """) == ["xx", false])
    }

    @Test("The default files that a body sets, and closes, are not those of the next body")
    func defaultFilesEndWithTheBody() throws {
        #expect(
            try script(
                workers: 1,
                """
                local function files() return io.type(io.input()), io.input() == io.stdin, io.type(io.output()), io.output() == io.stdout end
                local change = queue:addOperation(function()
                    io.input('/dev/null')
                    io.output('/dev/null')
                    io.write('x')
                    io.close()
                    return io.type(io.output())
                end)
                change:waitUntilFinished()
                local op = queue:addOperation(files)
                op:waitUntilFinished()
                return change.result, table.unpack(op.results)
                """) == ["closed file", "file", true, "file", true])
    }

    @Test("A body that stops the collector stops it for itself")
    func theCollectorRunsAgain() throws {
        #expect(
            try script(
                workers: 1,
                """
                local function stop() collectgarbage('stop') return collectgarbage('isrunning') end
                local change = queue:addOperation(stop)
                change:waitUntilFinished()
                local op = queue:addOperation(function() return collectgarbage('isrunning') end)
                op:waitUntilFinished()
                return change.result, op.result
                """) == [false, true])
    }

    @Test("A module that the body loads afterwards does not make its settings last")
    func settingsEndWithTheBodyThatLoadsAModule() throws {
        #expect(
            try script(
                workers: 1,
                """
                opscript.prelude(function() package.preload.late = function() return {} end end)
                queue:addOperation(function()
                    collectgarbage('stop')
                    io.output('/dev/null')
                    require 'late'
                    pcall(require, 'no such module')
                end):waitUntilFinished()
                local op = queue:addOperation(function() return collectgarbage('isrunning'), io.output() == io.stdout end)
                op:waitUntilFinished()
                return table.unpack(op.results)
                """) == [true, true])
    }

    @Test func whatAPreludeChangesStays() throws {
        #expect(
            try script(
                workers: 1,
                """
                opscript.prelude(function() string.twice = function(s) return s .. s end end)
                local function use() local s = string return ('x'):twice() end
                local results = {}
                for i = 1, 3 do
                    local op = queue:addOperation(use)
                    op:waitUntilFinished()
                    results[i] = op.result
                end
                return table.unpack(results)
                """) == ["xx", "xx", "xx"])
    }

    @Test func theMainStateIsLeftAlone() throws {
        #expect(
            try script(
                """
                string.twice = function(s) return s .. s end
                queue:addOperation(function() return 1 end):waitUntilFinished()
                return ('x'):twice()
                """) == ["xx"])
    }

    @Test func aChangeBehindAWaitLastsUntilTheBodyEnds() throws {
        #expect(
            try script(
                workers: 1,
                """
                local op = queue:addOperation(function()
                    string.mine = 1
                    opscript.OperationQueue.new():addOperation(function() return 1 end):waitUntilFinished()
                    return string.mine
                end)
                op:waitUntilFinished()
                local after = queue:addOperation(function() return string.mine end)
                after:waitUntilFinished()
                return op.result, after.result
                """) == [1, .nil])
    }

    @Test func aChangeAfterAModuleWasLoadedEndsToo() throws {
        #expect(
            try script(
                workers: 1,
                """
                opscript.prelude(function() package.preload.adds = function() string.adds = true return true end end)
                local op = queue:addOperation(function() require 'adds' string.rep = nil end)
                op:waitUntilFinished()
                local after = queue:addOperation(function() return string.adds, ('x'):rep(2) end)
                after:waitUntilFinished()
                return after.results[1], after.results[2]
                """) == [true, "xx"])
    }
}
