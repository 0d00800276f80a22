import LuaBindings
import Testing

/// `operation.error` from the script's view.
@Suite struct ErrorObjectTests {
    @Test func itHasMessageTracebackKindAndOperation() throws {
        try script(
            """
            local function inner() error 'deep' end
            local o = queue:addOperation(function() inner() end)
            o:waitUntilFinished()
            local e = o.error
            assert(e.message == 'script:1: deep' and tostring(e) == e.message and e.kind == 'error' and e.operation == o and e.value == e.message)
            assert(e.traceback == "stack traceback:\\n\\t[C]: in function 'error'\\n\\tscript:1: in upvalue 'inner'\\n\\tscript:2: in function <script:2>", e.traceback)
            assert(o.error == o.error and o.result == nil and o.results == nil)
            """)
    }

    @Test func anOperationWithoutAnErrorHasNone() throws {
        try script(
            """
            local o = Operation.new(function() end)
            assert(o.error == nil)
            queue:addOperation(o):waitUntilFinished()
            assert(o.error == nil)
            """)
    }

    @Test func aTableThatWasRaisedComesBackAsATable() throws {
        try script(
            """
            local o = queue:addOperation(function() error { code = 7, list = { 1, 2 } } end)
            o:waitUntilFinished()
            assert(o.error.value.code == 7 and o.error.value.list[2] == 2 and o.error.message == '(error object is a table value)')
            """)
    }

    @Test func aTableWithToStringSpeaksForItself() throws {
        try script(
            """
            local E = { __tostring = function(self) return 'E' .. self.code end }
            local o = queue:addOperation(function() error(setmetatable({ code = 4 }, E)) end)
            o:waitUntilFinished()
            assert(o.error.message == 'E4' and tostring(o.error.value) == 'E4' and o.error.value.code == 4)
            """)
    }

    @Test func everyValueCanBeRaised() throws {
        try script(
            """
            for _, value in ipairs { 42, 1.5, true, 'text' } do
                local o = queue:addOperation(function() error(value, 0) end)
                o:waitUntilFinished()
                assert(o.error.value == value and math.type(o.error.value) == math.type(value), o.error)
            end
            local none = queue:addOperation(function() error(nil) end)
            none:waitUntilFinished()
            assert(none.error.message == '(error object is a nil value)' and none.error.value == nil)
            local thread = queue:addOperation(function() error(coroutine.create(print)) end)
            thread:waitUntilFinished()
            assert(thread.error.value == thread.error.message)
            """)
    }

    @Test func anErrorInToStringIsStillAnError() throws {
        try script(
            """
            local o = queue:addOperation(function() error(setmetatable({}, { __tostring = function() error 'again' end })) end)
            o:waitUntilFinished()
            assert(o.error ~= nil)
            """)
    }

    @Test func itCannotBeChangedAndIsReadableInWorkers() throws {
        try script(
            """
            local o = queue:addOperation(function() error({ 1 }, 0) end)
            o:waitUntilFinished()
            local e = o.error
            assert(not pcall(function() e.message = 'x' end))
            local reader = queue:addOperation(function() return e.kind, e.value[1], e.operation == o, o.error == e end)
            reader:waitUntilFinished()
            assert(reader.results[1] == 'error' and reader.results[2] == 1 and reader.results[3] and reader.results[4], reader.error)
            """)
    }

    @Test func aStackOverflowIsAnError() throws {
        try script(
            """
            local o = queue:addOperation(function() local function f() return 1 + f() end return f() end)
            o:waitUntilFinished()
            assert(o.error.message:find 'stack overflow')
            """)
    }

    @Test func whoeverGetsTheErrorOnTheWayGetsItAsItWasRaised() throws {
        try script(
            """
            local raised = { 'raised' }
            local function body(op)
              local first <close> = setmetatable({}, { __close = function(_, e) op.first = e[1] error('replaced', 0) end })
              local second <close> = setmetatable({}, { __close = function(_, e) op.second = e[1] end })
              error(raised)
            end
            local o = queue:addOperation(body)
            o:waitUntilFinished()
            assert(o.first == 'raised' and o.second == 'raised' and o.error.message == 'replaced' and o.error.value == 'replaced')
            local loader = queue:addOperation(function() return load(function() error 'reader' end) end)
            loader:waitUntilFinished()
            assert(loader.results[1] == nil and loader.results[2]:find 'script:%d+: reader', loader.results[2])
            """)
    }

    @Test func anErrorInsideACallbackDoesNotTouchTheOneUnderWay() throws {
        try script(
            """
            local inner = Operation.new(function() error { 'inner' } end)
            local o = queue:addOperation(function(op)
              local closing <close> = setmetatable({}, { __close = function()
                local nested = opscript.OperationQueue.new():addOperation(function() error { 'nested' } end)
                nested:waitUntilFinished()
                inner:start()
                op.nested, op.inner = nested.error.value[1], inner.error.value[1]
              end })
              error { 'outer' }
            end)
            o:waitUntilFinished()
            assert(o.nested == 'nested' and o.inner == 'inner' and o.error.value[1] == 'outer')
            """)
    }

    @Test func aTableThatTransferRaisesIsShownByItsType() throws {
        try script(
            """
            local object = setmetatable({}, { __transfer = function() error { 'wrong', 'words' } end })
            local ok, message = pcall(queue.addOperation, queue, function() return object end)
            assert(message == '(error object is a table value)', message)
            """)
    }
}
