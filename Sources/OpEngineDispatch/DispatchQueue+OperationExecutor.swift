public import Dispatch
public import OpEngine

/// Lets a `DispatchQueue` be the `underlyingQueue` of an `OperationQueue`. In a module of its own, so that OpEngine needs no Dispatch.
extension DispatchQueue: OperationExecutor {
    /// Runs `job` as a work item of this queue.
    public func execute(_ job: @escaping @Sendable () -> Void) { async(execute: job) }

    /// The quality of service that the queue was made with; nil when none was given.
    public var qualityOfService: QualityOfService? {
        switch qos.qosClass {
        case .userInteractive: .userInteractive
        case .userInitiated: .userInitiated
        case .utility: .utility
        case .background: .background
        case .default: .default
        default: nil
        }
    }

    /// True of `DispatchQueue.main`.
    public var isMain: Bool { getSpecific(key: mainMark) == true }
}

/// Marks the main queue: on Linux `DispatchQueue.main` makes a new object each time, so that identity says nothing.
private let mainMark: DispatchSpecificKey<Bool> = {
    let key = DispatchSpecificKey<Bool>()
    DispatchQueue.main.setSpecific(key: key, value: true)
    return key
}()
