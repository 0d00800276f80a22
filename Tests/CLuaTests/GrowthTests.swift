import CLua
import CTestSupport
import Testing

/// Sending values again and again does not use more and more memory. Each test has its own process, so that no other code allocates.
@Suite(.disabled(if: has_thread_sanitizer(), "one thread only")) struct GrowthTests {
    /// Calls `step` `count` times. In the second half of the calls, the states must grow by less than `limit` bytes, and the allocated
    /// memory by less than the amount that malloc itself keeps.
    private static func expectNoGrowth(_ count: Int, limit: Int, _ states: [State], _ step: (Int) throws -> Void) throws {
        func measure() throws -> [Int] { try states.map { try $0.usedBytes() } + [allocated_bytes()] }
        for number in 0..<count / 2 { try step(number) }
        let before = try measure()
        for number in count / 2..<count { try step(number) }
        let after = try measure()
        for (index, (before, after)) in zip(before, after).enumerated() {
            #expect(after - before < (index < states.count ? limit : 400_000), "\(before) bytes, then \(after)")
        }
    }

    @Test func closuresOfOnePrototype() async {
        await #expect(processExitsWith: .success) {
            let sender = State(), receiver = State()
            try sender.run("function make(i) return function() return i, make end end")
            try Self.expectNoGrowth(100_000, limit: 20_000, [sender, receiver]) { number in
                try sender.run("return make(1)")
                try receiver.decode(try sender.encode(1, as: CLUA_BODY), in: CLUA_FRESH_ENVIRONMENT)
                receiver.count = 0
            }
        }
    }

    @Test func functionsThatEachHaveCodeOfTheirOwn() async {
        await #expect(processExitsWith: .success) {
            let sender = State(), receiver = State()
            // A state discards its compiled code after 4096 functions.
            try Self.expectNoGrowth(4 * 4096, limit: 200_000, [sender, receiver]) { number in
                try sender.run("return function() return 'function number \(100_000 + number)' end")
                try receiver.decode(try sender.encode(1, as: CLUA_BODY), in: CLUA_FRESH_ENVIRONMENT)
                receiver.count = 0
            }
        }
    }

    @Test func refusals() async {
        await #expect(processExitsWith: .success) {
            let sender = State()
            try sender.run("conn = { coroutine.create(print) }")
            try Self.expectNoGrowth(10_000, limit: 20_000, [sender]) { number in
                try sender.run("local c = conn; return function() return c end")
                _ = try? sender.encode(1, as: CLUA_BODY)
            }
        }
    }

    @Test func states() async {
        await #expect(processExitsWith: .success) {
            let parcel = try State().encode("local t = {}; return function() return t end, setmetatable({}, { __index = function() end })")
            try Self.expectNoGrowth(600, limit: 0, []) { _ in
                try State().decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
            }
        }
    }
}
