import TestSupport
public import Testing

/// Ends the test run, and names the test, when it takes too long: a thread that waits for ever cannot be interrupted.
///
/// Each test of a suite, and each of its cases, has the whole time, from its first line on. A run that is not quick, such as one with a sanitizer, has
/// five times as much, ten minutes at most. A test that goes on after an `await` comes after all tests that have begun before, and needs minutes.
public struct EndsWithin: TestTrait, SuiteTrait, TestScoping {
    let seconds: Int

    /// Tests of a suite inherit it.
    public var isRecursive: Bool { true }

    /// Runs a test while a thread watches the time.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let limit = TestLength.isQuick ? seconds : min(5 * seconds, 600)
        try await Self.watch(test.displayName ?? test.name, seconds: limit, function)
    }

    /// Ends the process if `body` has not returned in time.
    public static func watch(_ name: String, seconds: Int, _ body: () async throws -> Void) async throws {
        let ended = Gate(seconds: seconds, failure: "the test '\(name)' did not end")
        startThread { ended.wait() }
        defer { ended.open() }
        try await body()
    }
}

extension Trait where Self == EndsWithin {
    /// For tests that could fail only by waiting for ever.
    public static func endsWithin(seconds: Int) -> Self { EndsWithin(seconds: seconds) }
}
