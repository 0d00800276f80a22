import TestSupport
import Testing

@Suite("The main loop program")
struct MainLoopTests {
    @Test(
        "examples/mainloop builds as a package of its own and drains the main queue from two kinds of loop",
        .disabled(if: TestLength.isQuick, "builds the libraries once more"))
    func mainLoop() throws {
        let example = try Example("mainloop")
        let work = "1 squared is 1\n2 squared is 4\n3 squared is 9\nthat was all\n"
        for (loop, expected) in [("epoll", work + "the timer ticked as well\n"), ("dispatch", work)] {
            let outcome = try example.run(loop)
            #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(loop): \(outcome)")
        }
    }
}
