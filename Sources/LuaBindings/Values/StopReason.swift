import CLua

/// The reason why a running body is stopped. The raw value is C's `clua_stop_reason`.
enum StopReason: Int32 {
    case interrupted = 1
    case timeout = 2
    case memory = 3
    case instructions = 4

    /// The message of the error.
    var message: String {
        switch self {
        case .interrupted: "interrupted"
        case .timeout: "timeout"
        case .memory: "memory limit exceeded"
        case .instructions: "instruction limit exceeded"
        }
    }
}
