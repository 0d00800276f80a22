import Testing

@testable import OpPlatform

@Suite struct SpinningTests {
    @Test("A thread spins for longer after short sleeps, and for less after others")
    func theLimitFollowsTheSleeps() {
        let spinning = Spinning()
        func iterations() -> Int {
            var count = 0
            let found = spinning.spin {
                count += 1
                return false
            }
            #expect(!found)
            return count
        }
        let growing = (0..<4).map { _ in
            spinning.slept(for: .microseconds(20), isWakerElsewhere: true)
            return iterations()
        }
        spinning.slept(for: .milliseconds(1), isWakerElsewhere: true)
        let afterALongSleep = iterations()
        spinning.slept(for: .microseconds(20), isWakerElsewhere: false)
        let afterAWakerOnTheSameProcessor = iterations()
        for _ in 0..<6 { spinning.slept(for: .milliseconds(1), isWakerElsewhere: true) }
        #expect(growing == [2048, 4096, 4096, 4096])
        #expect(afterALongSleep == 2048 && afterAWakerOnTheSameProcessor == 1024 && iterations() == 128)
    }
}
