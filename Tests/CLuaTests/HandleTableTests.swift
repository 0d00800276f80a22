import CLua
import CTestSupport
import Testing

/// The handle tables shrink to the number of handles in use. Each test has its own process, because the host counts the objects of the
/// whole process.
@Suite(.disabled(if: has_thread_sanitizer(), "one thread only")) struct HandleTableTests {
    /// The number of handles that fit into the allocated pages.
    private static func capacity(_ state: State) -> UInt32 { unsafe clua_state_of(state.lua).pointee.handles.page_count * 64 }
    private static func used(_ state: State) -> UInt32 { unsafe clua_state_of(state.lua).pointee.handles.used }

    /// Makes 200,000 handles. Every 10,000th one is kept, and as many others are pinned.
    private static let making = """
        kept = {}
        collectgarbage('stop')
        for i = 1, 200000 do
            local handle = opscript.object(i)
            if i % 10000 == 0 then kept[i] = handle end
            if i % 10000 == 1 then opscript.pin(i) end
        end
        """

    @Test func roomForManyIsGivenBackWhenTheyAreCollected() async {
        await #expect(processExitsWith: .success) {
            let state = ObjectHost.state()
            let before = try (state.usedBytes(), allocated_bytes())
            try state.run(Self.making)
            #expect(Self.capacity(state) >= 200_000)
            // The first collection finds the slots still in use, the second gives them up, the third frees them.
            try state.run("collectgarbage()")
            let after = try (state.usedBytes(), allocated_bytes())
            #expect(Self.used(state) == 40)
            // Each handle that is left keeps at most one page of two kilobytes. The registry keeps two numbers for each page that ever existed.
            #expect(Self.capacity(state) <= 41 * 64)
            #expect(after.0 - before.0 < 250_000, "\(before.0) bytes of the state, then \(after.0)")
            #expect(after.1 - before.1 < 350_000 || after.1 == 0, "\(before.1) bytes, then \(after.1)")
        }
    }

    @Test func handlesThatAreLeftAreFoundAndPinned() async {
        await #expect(processExitsWith: .success) {
            do {
                let state = ObjectHost.state()
                try state.run(Self.making)
                for _ in 0..<2 {
                    try state.run(
                        """
                        collectgarbage()
                        for i, handle in pairs(kept) do assert(opscript.object(i) == handle) end
                        """)
                    for number in 1...200_000 {
                        let isLeft = number % 10_000 < 2
                        #expect(ObjectHost.references(to: number) == (isLeft ? 1 : 0))
                    }
                }
                try state.run("for i = 1, 200000, 10000 do opscript.unpin(i) end collectgarbage()")
                #expect(ObjectHost.references == 20)
                try state.run(Self.making)
                try state.run("collectgarbage() for i, handle in pairs(kept) do assert(opscript.object(i) == handle) end")
                #expect(ObjectHost.references == 40)
            }
            #expect(ObjectHost.references == 0)
        }
    }

    /// Finalizers of scripts use handles that nothing else refers to. The tables shrink afterwards.
    @Test func finalizersMayUseHandlesThatAreGarbage() async {
        await #expect(processExitsWith: .success) {
            do {
                let state = ObjectHost.state()
                try state.run(
                    """
                    collectgarbage('stop')
                    again, seen = {}, {}
                    for i = 1, 100000 do
                        local handle = opscript.object(i)
                        local function use(t)
                            -- Another handle of the same object. It is kept, or collected before `t.handle` or after it.
                            local other = opscript.object(i)
                            assert(other ~= t.handle and opscript.object(i) == other)
                            if i % 1000 == 0 then again[i] = other end
                            seen[#seen + 1] = i
                        end
                        if i % 10 == 0 then
                            setmetatable({ handle = handle }, { __gc = use })
                        end
                    end
                    collectgarbage() collectgarbage() collectgarbage()
                    assert(#seen == 10000)
                    for i, handle in pairs(again) do assert(opscript.object(i) == handle) end
                    """)
                #expect(ObjectHost.references == 100)
                #expect(Self.used(state) == 100 && Self.capacity(state) <= 101 * 64)
            }
            #expect(ObjectHost.references == 0)
        }
    }

    @Test func roomIsGivenBackWhereThereIsNoMemory() async {
        await #expect(processExitsWith: .success) {
            let state = ObjectHost.state()
            try state.run(Self.making + " all = {} for i = 1, 200000 do all[i] = opscript.object(i) end")
            let handleBytes = unsafe clua_state_of(state.lua).pointee.handles.block_size
            let used = try state.usedBytes()
            try state.run("collectgarbage('stop') for i = 1, 200000 do all[i] = nil end")
            // The collector frees the handles because memory is short.
            state.limitBytes = used - 200_000 * handleBytes + 100_000
            try state.run("collectgarbage() collectgarbage()")
            #expect(Self.used(state) == 40 && Self.capacity(state) <= 41 * 64)
            state.limitBytes = 0
            try state.run(
                """
                for i, handle in pairs(kept) do assert(opscript.object(i) == handle) end
                all = opscript.object(7)
                all = nil
                collectgarbage()
                for i, handle in pairs(kept) do assert(opscript.object(i) == handle) end
                """)
            #expect(Self.used(state) == 40)
        }
    }
}
