import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Classes that scripts derive from `Operation`.
@Suite struct SubclassTests {
    private static let download = """
        local Download = Operation:subclass 'Download'
        Download.limit = 5
        function Download:init(url) self.url = url end
        function Download:main() return self:describe(), self.limit, self:isKindOf(Download), Operation.current == self end
        function Download:describe() return 'from ' .. self.url end

        """

    @Test func anOperationRunsWhatItsClassSays() throws {
        try script(
            Self.download + """
                local d = Download.new 'here'
                assert(d.url == 'here' and d.limit == 5 and d:describe() == 'from here' and d.nothing == nil)
                assert(tostring(d) == 'Download (ready)' and tostring(Download) == 'class Download')
                queue:addOperation(d)
                d:waitUntilFinished()
                local r = d.results
                assert(r[1] == 'from here' and r[2] == 5 and r[3] == true and r[4] == true, d.error)
                for _, start in ipairs { function(o) o:start() end, function(o) OperationQueue.main:addOperation(o) end } do
                    local here = Download.new 'main'
                    start(here)
                    here:waitUntilFinished()
                    assert(here.result == 'from main' and here.results[4] == true, here.error)
                end
                """)
    }

    @Test func storageShadowsTheClass() throws {
        try script(
            Self.download + """
                local d = Download.new 'x'
                d.limit = 6
                d.describe = function() return 'mine' end
                assert(d.limit == 6 and d:describe() == 'mine' and Download.limit == 5)
                queue:addOperation(d)
                d:waitUntilFinished()
                assert(d.result == 'mine' and d.results[2] == 6, d.error)
                d.limit = nil
                assert(d.limit == 5)
                """)
    }

    @Test func aSubclassOfASubclassCallsItsBase() throws {
        try script(
            Self.download + """
                local Image = Download:subclass 'Image'
                local Thumbnail = Image:subclass 'Thumbnail'
                function Image:init(url, size)
                    Download.init(self, url)
                    self.size = size
                end
                function Image:main()
                    local text, limit = Download.main(self)
                    return text .. ' in ' .. self.size, limit
                end
                Thumbnail.limit = 1
                local t = Thumbnail.new('there', 32)
                queue:addOperation(t)
                t:waitUntilFinished()
                assert(t.result == 'from there in 32' and t.results[2] == 1, t.error)
                assert(t:isKindOf(Thumbnail) and t:isKindOf(Image) and t:isKindOf(Download) and t:isKindOf(Operation))
                assert(not t:isKindOf(opscript.BlockOperation) and not Download.new('x'):isKindOf(Image))
                local empty = Operation:subclass('Empty').new(1, 2)
                Operation.main(empty)
                Operation.init(empty)
                queue:addOperation(empty)
                empty:waitUntilFinished()
                assert(empty.results.n == 0)
                """)
    }

    @Test func kindsOfTheModule() throws {
        try script(
            Self.download + """
                local b = opscript.BlockOperation.new(print)
                local i = opscript.InvocationOperation.new('', 'len')
                local o = Operation.new(print)
                assert(b:isKindOf(opscript.BlockOperation) and b:isKindOf(Operation) and not b:isKindOf(opscript.InvocationOperation))
                assert(i:isKindOf(opscript.InvocationOperation) and i:isKindOf(Operation) and not i:isKindOf(Download))
                assert(o:isKindOf(Operation) and not o:isKindOf(opscript.BlockOperation))
                """)
    }

    @Test func aClassIsTheSameTableWhereverItGoes() throws {
        try script(
            workers: 1,
            Self.download + """
                local function look(op, d, class, again, list)
                    return d:isKindOf(Download) and class == Download and again == class and list.class == class and class.new('a'):isKindOf(Download)
                        and d:describe(), class
                end
                local d = Download.new 'x'
                for i = 1, 3 do
                    local o = queue:addOperation(look, d, Download, Download, { class = Download })
                    o:waitUntilFinished()
                    assert(o.result == 'from x' and o.results[2] == Download, o.error)
                end
                -- A state that stays knows it again.
                local function store(op, class, o) op.class, op.o = class, o end
                local a = queue:addOperation(store, Download, d)
                a:waitUntilFinished()
                assert(a.class == Download and a.o == d and a.o:isKindOf(a.class))
                """)
    }

    @Test func classesThatReferToThemselvesAndToEachOther() throws {
        try script(
            """
            local Ping, Pong = Operation:subclass 'Ping', Operation:subclass 'Pong'
            function Ping:init(n) self.n = n end
            Pong.init = Ping.init
            function Ping:main() return self.n == 0 and 'done' or Pong.new(self.n - 1):run() end
            function Pong:main() return self.n == 0 and 'done' or Ping.new(self.n - 1):run() end
            function Ping:run() self:start() return self.result end
            Pong.run = Ping.run
            Ping.other, Pong.other, Ping.own = Pong, Ping, { Ping }
            local p = queue:addOperation(Ping.new(5))
            p:waitUntilFinished()
            assert(p.result == 'done', p.error)
            local chain = {}
            local class = Operation
            for i = 1, 200 do
                class = class:subclass('C' .. i)
                chain[i] = class
            end
            chain[1].main = function(self) return self:isKindOf(chain[1]), self:isKindOf(chain[200]) end
            local deep = queue:addOperation(class.new())
            deep:waitUntilFinished()
            assert(deep.result == true and deep.results[2] == true, deep.error)
            """)
    }

    @Test func methodsThatAreAddedLaterArriveWithLaterSends() throws {
        try script(
            workers: 1,
            Self.download + """
                local function call(op, d, name) return d[name] and d[name](d) end
                local d = Download.new 'x'
                local before = queue:addOperation(call, d, 'later')
                before:waitUntilFinished()
                assert(before.result == nil, before.error)
                function Download:later() return 'later ' .. self.url end
                function Download:describe() return 'changed' end
                local after = queue:addOperation(call, d, 'later')
                after:waitUntilFinished()
                assert(after.result == 'later x', after.error)
                Download.later = nil
                -- The body gets the values of the moment at which it was added.
                queue.isSuspended = true
                local first = queue:addOperation(call, d, 'describe')
                function Download:describe() return 'again' end
                local second = queue:addOperation(call, d, 'describe')
                first.queuePriority = 'low'
                local gone = queue:addOperation(call, d, 'later')
                queue.isSuspended = false
                queue:waitUntilAllOperationsAreFinished()
                assert(first.result == 'changed' and second.result == 'again' and gone.result == nil)
                """)
    }

    /// The operation arrives without its class in states that do not know the class yet.
    @Test func anOperationThatWasFoundHasItsClass() throws {
        try script(
            Self.download + """
                local d = Download.new 'x'
                local dependent = Operation.new(function(op) return op.dependencies[1]:describe(), tostring(op.dependencies[1]) end)
                dependent:addDependency(d)
                d:start()
                queue:addOperation(dependent)
                dependent:waitUntilFinished()
                assert(dependent.result == 'from x' and dependent.results[2] == 'Download (finished)', dependent.error)
                OperationQueue.main.isSuspended = true
                OperationQueue.main:addOperation(Download.new 'y')
                local found = queue:addOperation(function(op)
                    local inner = OperationQueue.main.operations[1]
                    return inner:describe(), inner:isKindOf(Operation)
                end)
                found:waitUntilFinished()
                assert(found.result == 'from y' and found.results[2] == true, found.error)
                OperationQueue.main.isSuspended = false
                """)
    }

    @Test func aWorkersClassComesToTheMainState() throws {
        try script(
            """
            local maker = queue:addOperation(function()
                local Made = Operation:subclass 'Made'
                function Made:main() return 'made ' .. self:text() end
                function Made:text() return 'there' end
                return Made.new(), Made
            end)
            maker:waitUntilFinished()
            local made, Made = maker.result, maker.results[2]
            assert(made:isKindOf(Made) and made:text() == 'there' and Made.new():isKindOf(Made))
            assert(maker.result == made)
            local another = Made.new()
            another:start()
            assert(another.result == 'made there', another.error)
            for _, o in ipairs { made, Made.new() } do
                queue:addOperation(o)
                o:waitUntilFinished()
                assert(o.result == 'made there', o.error)
            end
            """)
    }

    @Test func globalsAndUpvaluesOfMethodsComeAlong() throws {
        try script(
            workers: 1,
            """
            local factor = 3
            function triple(n) return n * factor end
            Scaled = Operation:subclass 'Scaled'
            function Scaled:main()
                local before = seen
                seen = true
                return triple(4), before, Scaled.new():isKindOf(Scaled)
            end
            for i = 1, 3 do
                local o = queue:addOperation(Scaled.new())
                o:waitUntilFinished()
                -- A global that one operation assigns is not there in the next.
                assert(o.result == 12 and o.results[2] == nil and o.results[3] == true, o.error)
            end
            assert(seen == nil)
            """)
    }

    @Test func aClassInAModuleIsTheWorkersOwn() throws {
        let modules = try ModuleDirectory([
            "operation_classes": """
            local Operation = opscript.Operation
            local Download = Operation:subclass 'Download'
            local Image = Download:subclass 'Image'
            function Download:init(url) self.url = url end
            function Download:main() return self:describe() end
            function Download:describe() return 'module ' .. self.url end
            return { Download = Download, Image = Image }
            """
        ])
        try withRuntime { runtime throws in
            try runtime.run(
                modules.prelude + """

                    local downloads = require 'operation_classes'
                    local Download, Image = downloads.Download, downloads.Image
                    local d = Image.new 'x'
                    queue:addOperation(d)
                    d:waitUntilFinished()
                    assert(d.result == 'module x', d.error)
                    local o = queue:addOperation(function(op, d)
                        local own = require 'operation_classes'
                        return d:isKindOf(Download) and d:isKindOf(own.Download) and own.Image == Image and d:describe(), Image.new 'w'
                    end, d)
                    o:waitUntilFinished()
                    assert(o.result == 'module x', o.error)
                    local w = o.results[2]
                    assert(w:isKindOf(Image) and w:isKindOf(Download) and w:describe() == 'module w')
                    local Derived = Image:subclass 'Derived'
                    function Derived:describe() return 'derived ' .. Image.describe(self) end
                    local e = queue:addOperation(Derived.new 'y')
                    e:waitUntilFinished()
                    assert(e.result == 'derived module y', e.error)
                    """)
        }
    }

    // MARK: start and cancel

    @Test func aClassWithStartIsAsynchronous() throws {
        try script(
            """
            local Request = Operation:subclass 'Request'
            function Request:start() self.sent = true end
            function Request:main() error 'not called' end
            local r = Request.new()
            assert(r.isAsynchronous)
            queue:addOperation(r)
            while not r.sent do opscript.sleep(0.001) end
            assert(r.isExecuting)
            r:finish 'answer'
            assert(r:waitUntilFinished() and r.result == 'answer')
            local Quick = Request:subclass 'Quick'
            function Quick:main() return 'quick ' .. tostring(self.sent) end
            function Quick:start()
                Request.start(self)
                self:finish(self:main())
            end
            for _, start in ipairs {
                function(o) o:start() end, function(o) queue:addOperation(o) end, function(o) OperationQueue.main:addOperation(o) end,
            } do
                local q = Quick.new()
                start(q)
                q:waitUntilFinished()
                assert(q.result == 'quick true', q.error)
            end
            local again = Quick.new()
            again:start()
            assert(not pcall(again.start, again))
            local Wrong = Operation:subclass 'Wrong'
            function Wrong:start() Operation.start(self) end
            local w = queue:addOperation(Wrong.new())
            w:waitUntilFinished()
            assert(w.error.message:find 'cannot be started')
            local early = Quick.new()
            early:cancel()
            queue:addOperation(early)
            assert(early:waitUntilFinished() and not early.sent)
            """)
    }

    @Test func cancelIsCalledInTheStateThatCancels() throws {
        try script(
            """
            local log = {}
            local Careful = Operation:subclass 'Careful'
            function Careful:cancel()
                log[#log + 1] = self.name
                self.told = true
                if self.name ~= 'stubborn' then Operation.cancel(self) end
            end
            local held = OperationQueue.new { isSuspended = true }
            local function new(name)
                local o = Careful.new()
                o.name = name
                return held:addOperation(o)
            end
            local a, b, stubborn = new 'a', new 'b', new 'stubborn'
            a:cancel()
            assert(a.isCancelled and a.told)
            held:cancelAllOperations()
            assert(table.concat(log, ' ') == 'a stubborn b a' and b.isCancelled and not stubborn.isCancelled and stubborn.told)
            queue:addOperation(function() stubborn.name = 'soft' stubborn:cancel() end):waitUntilFinished()
            assert(stubborn.isCancelled and #log == 4)
            held.isSuspended = false
            local Failing = Operation:subclass 'Failing'
            function Failing:cancel() error 'in cancel' end
            local f, after = Failing.new(), Operation.new(function() end)
            held.isSuspended = true
            held:addOperations({ f, after }, false)
            local ok, message = pcall(held.cancelAllOperations, held)
            assert(not ok and message:find 'in cancel' and after.isCancelled and not f.isCancelled)
            f:interrupt()
            assert(f.isCancelled)
            held.isSuspended = false
            """)
    }

    // MARK: wrong use

    @Test(arguments: [
        ("Operation:subclass()", "string expected, got no value"),
        ("Operation:subclass ''", "a class needs a name"),
        ("Operation.subclass 'X'", "call 'subclass' with ':' on a class"),
        ("Operation.new(print):subclass 'X'", "call 'subclass' with ':' on a class"),
        ("opscript.BlockOperation:subclass 'X'", "'BlockOperation' has no subclasses"),
        ("opscript.InvocationOperation:subclass 'X'", "'InvocationOperation' has no subclasses"),
        ("Operation:subclass('X'):new()", "call 'new' with '.', as in X.new(...)"),
        ("Operation:new(print)", "call 'new' with '.', as in Operation.new(...)"),
        ("Operation:subclass('X').new():new()", "'new' is a function of the class"),
        ("local X = Operation:subclass 'X' function X:isReady() end", "'isReady' is a property of every operation"),
        ("Operation:subclass('X').name = 'n'", "'name' is a property of every operation"),
        ("local X = Operation:subclass 'X' function X:addDependency() end", "only init, main, start, cancel can be overridden"),
        ("local X = Operation:subclass 'X' X.new = nil X.new = print", "'new' is a method of every operation: define 'init'"),
        ("local X = Operation:subclass 'X' function X:mian() end", "did you mean 'main'?"),
        ("Operation:subclass('X').main = 12", "'main' of a class must be a function, got a number"),
        ("local X = Operation:subclass 'X' function X:__gc() end", "has no metamethods of its own"),
        ("setmetatable(Operation:subclass 'X', {})", "cannot change a protected metatable"),
        ("Operation:subclass('X').new().cancle = 1", "did you mean 'cancel'?"),
        ("Operation:subclass('X').new().main = print", "'main' is a method of operations"),
        ("Operation.new(print):isKindOf()", "class of operations expected, got no value"),
        ("Operation.new(print):isKindOf {}", "class of operations expected, got table"),
        ("Operation.new(print).isKindOf(Operation)", "call 'isKindOf' with ':'"),
        ("local X = Operation:subclass 'X' function X:init() error 'hostile' end X.new()", "hostile"),
        ("local X = Operation:subclass 'X' function X.helper() end X.new().helper.x = 1", "attempt to index a function value"),
        ("local X = Operation:subclass 'X' X[nil] = 1", "index is nil"),
        (
            "local t = coroutine.create(print) local X = Operation:subclass 'X' function X:main() return t end queue:addOperation(X.new())",
            "script:1: cannot send upvalue 't' (a coroutine) of function <script:1>"
        ),
        (
            "local X = Operation:subclass 'X' X.files = { io.stdout, coroutine.create(print) } queue:addOperation(X.new())",
            "cannot send class X.files[2]"
        ),
    ])
    func misuseIsAnError(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
            #expect(try runtime.run("return queue.operationCount") == [0])
        }
    }

    @Test func namesOfTheClassAreNoMisspellings() throws {
        try script(
            """
            local Counter = Operation:subclass 'Counter'
            Counter.names, Counter[1] = 'none', 'first'
            local c = Counter.new()
            assert(c.names == 'none' and c[1] == 'first')
            c.names = 'some'
            assert(c.names == 'some')
            assert(not pcall(function() c.nane = 1 end))
            """)
    }

    @Test func initMayYieldAndAddTheOperation() throws {
        try script(
            """
            local Slow = Operation:subclass 'Slow'
            function Slow:init(...)
                self.got = coroutine.yield(...)
                queue:addOperation(self)
            end
            function Slow:main() return self.got end
            local make = coroutine.wrap(function() return Slow.new('asked', 'for') end)
            local a, b = make()
            assert(a == 'asked' and b == 'for')
            local o = make 'given'
            o:waitUntilFinished()
            assert(o.result == 'given' and o:isKindOf(Slow), o.error)
            """)
    }

    @Test func hostileClassTables() throws {
        try script(
            """
            local X = Operation:subclass 'X'
            debug.setmetatable(X, nil)
            local ok, message = pcall(X.new)
            assert(not ok and message:find 'the metatable of this class has been taken away', message)
            local Y = Operation:subclass 'Y'
            debug.setmetatable(Y, { __index = function() error 'never' end, __gc = function() end })
            pcall(function() queue:addOperation(Y.new()) end)
            local Z = Operation:subclass 'Z'
            rawset(Z, 'addDependency', print)
            rawset(Z, 'name', 'no')
            rawset(Z, 'new', nil)
            local z = pcall(function() return Z.new() end)
            local W = Operation:subclass 'W'
            function W:main() return 'ran' end
            local w = W.new()
            for key in pairs(W) do rawset(W, key, nil) end
            queue:addOperation(w)
            w:waitUntilFinished()
            assert(w.results.n == 0)
            queue:waitUntilAllOperationsAreFinished()
            """)
    }

    @Test func classesThatKnowTheirOperationsGoWithTheRuntime() throws {
        weak var weakly: Operation?
        try withRuntime(workers: 1) { runtime throws in
            try {
                weakly = try runtime.operation(
                    """
                    local all = {}
                    local A, B = Operation:subclass 'A', Operation:subclass 'B'
                    function A:init() all[#all + 1] = self end
                    function A:main() return #all, B end
                    function B:main() return A end
                    queue:addOperations({ A.new(), A.new(), B.new() }, true)
                    return all[1]
                    """)
            }()
            _ = try runtime.finish()
        }
        #expect(weakly == nil)
    }

    @Test func operationsOfAClassGo() throws {
        try withRuntime(workers: 1) { runtime throws in
            weak var weakly: Operation?
            try {
                weakly = try runtime.operation(
                    Self.download + "local d = Download.new 'x' queue:addOperation(d) d:waitUntilFinished() local _ = d.result return d")
            }()
            try runtime.run("queue:addOperation(function() collectgarbage() collectgarbage() end)")
            _ = try runtime.finish()
            try runtime.run("collectgarbage() collectgarbage()")
            try runtime.drain()
            #expect(weakly == nil)
        }
    }
}
