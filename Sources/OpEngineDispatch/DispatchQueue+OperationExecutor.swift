public import Dispatch
public import OpEngine

/// Lets a `DispatchQueue` be the `underlyingQueue` of an `OperationQueue`. A separate module, so that OpEngine does not depend on Dispatch.
extension DispatchQueue: OperationExecutor {
    /// Runs `job` asynchronously, as a work item of this queue. Safe from every thread.
    public func execute(_ job: @escaping @Sendable () -> Void) { async(execute: job) }

    /// The quality of service with which the queue was made; nil if it has none.
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

    /// Whether the queue is `DispatchQueue.main`.
    public var isMain: Bool { getSpecific(key: mainMark) == true }
}

/// Marks the main queue. On Linux `DispatchQueue.main` returns a new object each time, so identity cannot tell.
private let mainMark: DispatchSpecificKey<Bool> = {
    let key = DispatchSpecificKey<Bool>()
    DispatchQueue.main.setSpecific(key: key, value: true)
    return key
}()
