import OpPlatform

extension Engine {
    /// Calls `body` at a moment of the engine's clock, on a thread that `body` must not block. The engine is not quiescent until `body` returns.
    func setTimer(at moment: ContinuousClock.Instant, _ body: @escaping @Sendable () -> Void) -> Timers.Number {
        hold()
        return timers.set(at: moment) {
            body()
            self.release()
        }
    }

    /// Removes a timer whose function has not been called.
    func cancelTimer(_ number: Timers.Number) { if timers.cancel(number) { release() } }
}
