import TestSupport
import Testing

@Suite("The host program")
struct HostTests {
    @Test(
        "examples/host builds as a package of its own and runs its scripts",
        .disabled(if: TestLength.isQuick, "builds the libraries once more"))
    func host() throws {
        let outcome = try Example("host").run()
        let expected = "the sum is 12\nas expected: script:1: there is no such item\n"
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }
}
