import CLua
import Testing

/// A body may run in the closure in which an earlier body with the same code ran.
@Suite struct CachedClosureTests {
    @Test func theNextBodyOfTheSameCodeRunsAsTheSameClosure() throws {
        let parcel = try body("local n, s = 1, 'x'; return function() return n + 1, s .. n end")
        let receiver = State()
        for _ in 1...5 { #expect(try receiver.run(body: parcel) == "2 x1") }
        #expect(receiver.reuseCount == 4)
    }

    @Test func aBodyHasTheUpvaluesOfItsOwnParcel() throws {
        let sender = State()
        try sender.run("function make(n, s) return function() return n .. '!', s end end")
        let parcels = [try sender.encode("return make('a', 1)"), try sender.encode("return make('b', false)")]
        let receiver = State()
        for _ in 1...2 {
            #expect(try receiver.run(body: parcels[0]) == "a! 1")
            #expect(try receiver.run(body: parcels[1]) == "b! false")
        }
        #expect(receiver.reuseCount == 3)
    }

    /// The closure still holds the upvalues of its last parcel, so they are not set again.
    @Test func theUpvaluesOfTheLastParcelStay() throws {
        let sender = State()
        try sender.run("function make(n) return function() return n end end")
        let long = String(repeating: "x", count: 100)
        let values = ["1", "1", "2", "1", "'a'", "'a'", "nil", "nil", "'\(long)'", "'\(long)'", "'a'", "1"]
        let expected = ["1", "1", "2", "1", "a", "a", "nil", "nil", long, long, "a", "1"]
        let receiver = State()
        for (value, result) in zip(values, expected) {
            #expect(try receiver.run(body: try sender.encode("return make(\(value))")) == result)
        }
        #expect(receiver.reuseCount == values.count - 1)
    }

    @Test func codesThatShareAPlaceTakeTurns() throws {
        let count = CLUA_CACHED_CLOSURE_COUNT + 1
        let parcels = try (1...count).map { try body("local n = \($0); return function() return n + \($0) end") }
        let receiver = State()
        for _ in 1...3 { for (index, parcel) in parcels.enumerated() { #expect(try receiver.run(body: parcel) == "\(2 * (index + 1))") } }
        #expect(receiver.reuseCount < 2 * count)
    }

    @Test func aBodyThatFailsIsNotUsedAgain() throws {
        let parcel = try body("local n = 0; return function() n() end")
        let receiver = State()
        for _ in 1...3 {
            let error = #expect(throws: ScriptError.self) { try receiver.run(body: parcel) }
            #expect(error?.message == "test:1: attempt to call a number value (upvalue 'n')")
        }
        #expect(receiver.reuseCount == 0)
    }

    @Test func aBodyThatIsStoppedIsNotUsedAgain() throws {
        let sender = State()
        try sender.run("function make(n) return function() local t = {}; for i = 1, n do t[i] = i end; return n + 1 end end")
        let (large, small) = (try sender.encode("return make(1000000)"), try sender.encode("return make(1)"))
        let receiver = State()
        for _ in 1...2 {
            #expect(try receiver.run(body: small, memoryLimit: 1 << 20) == "2")
            let error = #expect(throws: ScriptError.self) { try receiver.run(body: large, memoryLimit: 1 << 20) }
            #expect(error?.isMemoryError == true)
        }
        #expect(receiver.reuseCount == 2)
    }

    /// A closure is not reused when something may keep it, or when it shares its upvalues.
    @Test(arguments: [
        ("local n = 1; return function() local function f() return n end; return f() + 1 end", "2"),
        ("local t = {}; return function() t[#t + 1] = 1; return #t end", "1"),
        ("local n = 1; local function f() return n, f ~= nil end; return f", "1 true"),
        ("return function() x = (x or 0) + 1; return x end", "1"),
        ("local n = 1; return function() n = n + 1; return n end", "2"),
        ("local a, b = 1, 2; local function f() return a, b end; debug.upvaluejoin(f, 2, f, 1); return f", "1 1"),
        (
            "local a, b, c, d, e, f, g, h, i = 1; return function() return a + 1, b, c, d, e, f, g, h, i end",
            "2" + String(repeating: " nil", count: 8)
        ),
    ])
    func otherFunctionsAreNew(_ source: String, _ results: String) throws {
        let parcel = try body(source)
        let receiver = State()
        for _ in 1...3 { #expect(try receiver.run(body: parcel) == results) }
        #expect(receiver.reuseCount == 0)
    }

    /// A called function or a hook can get the running closure from the debug library.
    @Test(arguments: [
        "keep(debug.getinfo(2, 'f').func)",
        "debug.sethook(function() keep(debug.getinfo(2, 'f').func) end, 'l')",
    ])
    func aClosureThatTheDebugLibraryHasShownIsNotUsedAgain(_ look: String) throws {
        let sender = State()
        try sender.run("function make(n) return function() ('').look()\n return n + 1 end end")
        let (first, second) = (try sender.encode("return make(10)"), try sender.encode("return make(20)"))
        let receiver = State()
        try receiver.run(
            """
            local kept
            local function keep(f) if type(f) == 'function' and debug.getupvalue(f, 1) == 'n' then kept = kept or f end end
            function string.look() \(look) end
            function string.seen() return select(2, debug.getupvalue(kept, 1)) end
            """)
        #expect(try receiver.run(body: first) == "11")
        #expect(try receiver.run(body: second) == "21")
        #expect(try receiver.text("return tostring(string.seen())") == "10")
        #expect(receiver.reuseCount == 0)
    }

    /// Code can also find the closure in the registry.
    @Test func anAssignmentToAnUpvalueDoesNotReachTheNextBody() throws {
        let parcel = try body("local n = 5; return function() return n + 1 end")
        let receiver = State()
        #expect(try receiver.run(body: parcel) == "6")
        try receiver.run(
            """
            for _, f in pairs(debug.getregistry()) do
              if type(f) == 'function' and debug.getupvalue(f, 1) == 'n' then debug.setupvalue(f, 1, 99) end
            end
            """)
        #expect(try receiver.run(body: parcel) == "6")
    }

    @Test func lookingBetweenBodiesChangesNothing() throws {
        let parcel = try body("local n = 1; return function() return n + 1 end")
        let receiver = State()
        for _ in 1...3 {
            #expect(try receiver.run(body: parcel) == "2")
            try receiver.run("debug.getinfo(1)")
        }
        #expect(receiver.reuseCount == 2)
    }

    /// The results may have used up every slot of the stack.
    @Test func aBodyThatWasLookedAtMayReturnAnyNumberOfValues() throws {
        let receiver = State()
        try receiver.run("function string.look() debug.getinfo(1) return 1 end")
        for count in 1...60 {
            let parcel = try body("local s = ('x'):rep(\(count)); return function() s:look(); return s:byte(1, -1) end")
            #expect(try receiver.run(body: parcel).count == 4 * count - 1)
        }
        #expect(receiver.reuseCount == 0)
    }

    @Test func whatABodyLeavesInAnUpvalueIsCollected() throws {
        let parcel = try body("local t; return function() t = {}; for i = 1, 100000 do t[i] = i end; return #t end")
        let receiver = State()
        let before = try receiver.usedBytes()
        #expect(try receiver.run(body: parcel) == "100000")
        #expect(try receiver.usedBytes() - before < 100_000)
    }

    @Test func theValuesOfAClosureAreReleasedWithTheState() throws {
        let parcel = try body("local s = ('x'):rep(10000); return function() return #s end")
        do {
            let receiver = State()
            for _ in 1...2 { #expect(try receiver.run(body: parcel) == "10000") }
        }
        #expect(try State().run(body: parcel) == "10000")
    }

    private func body(_ source: String) throws(ScriptError) -> Parcel { try State().encode(source) }
}

extension State {
    /// How often a body has run in the closure of an earlier body.
    fileprivate var reuseCount: Int { unsafe Int(clua_state_of(lua).pointee.reuse_count) }

    /// Runs the body of an operation without parameters and returns its results, separated by spaces.
    fileprivate func run(body: Parcel, memoryLimit: Int = 0) throws(ScriptError) -> String {
        let suspended = UnsafeMutablePointer<clua_suspended_body>.allocate(capacity: 1)
        unsafe clua_begin_body(lua, nil, suspended)
        defer {
            unsafe clua_end_body(lua, suspended)
            unsafe suspended.deallocate()
        }
        let results = Parcel()
        var failure = unsafe clua_failure()
        guard unsafe clua_run_body(lua, clua_body(), body.pointer, LUA_MULTRET, memoryLimit, results.pointer, &failure) == LUA_OK else {
            defer { unsafe clua_failure_release(&failure) }
            throw unsafe ScriptError(failure)
        }
        try decode(results, in: CLUA_CURRENT_ENVIRONMENT)
        let count = unsafe results.pointer.pointee.value_count
        try run(
            "local all = table.pack(...); for i = 1, all.n do all[i] = tostring(all[i]) end; text = table.concat(all, ' ')",
            arguments: Int32(count))
        return try text("return text") ?? ""
    }
}
