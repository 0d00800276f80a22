public import COpscript
import LuaBindings

/// `opscript_configuration_set_limit`
@_cdecl("opscript_configuration_set_limit")
public func setLimit(_ configuration: OpaquePointer?, _ limit: opscript_limit, _ value: Double) {
    change(configuration) { try $0.limits.set(limit, to: value) }
}

/// `opscript_configuration_set_untrusted`
@_cdecl("opscript_configuration_set_untrusted")
public func setUntrusted(_ configuration: OpaquePointer?) {
    change(configuration) { ($0.sandbox, $0.limits, $0.stateMemoryLimit) = (.untrusted, .untrusted, 128 << 20) }
}

extension Runtime.Limits {
    fileprivate mutating func set(_ limit: opscript_limit, to value: Double) throws {
        guard value >= 0 else { throw Misuse("a limit is \(value), and must be 0 or more") }
        // A number that is too great for an integer is no limit.
        let (seconds, count) = (value.isFinite ? value : nil, Int(exactly: value.rounded(.down)))
        switch limit {
        case OPSCRIPT_OPERATION_SECONDS: operationSeconds = seconds
        case OPSCRIPT_OPERATION_INSTRUCTIONS: operationInstructions = count
        case OPSCRIPT_RUN_SECONDS: runSeconds = seconds
        case OPSCRIPT_RUN_INSTRUCTIONS: runInstructions = count
        case OPSCRIPT_VALUE_BYTES: valueBytes = count
        case OPSCRIPT_STORED_VALUES: storedValues = count
        case OPSCRIPT_OUTPUT_BYTES: outputBytes = count
        case OPSCRIPT_PROCESSES: processes = count
        case OPSCRIPT_OPERATIONS: operations = count
        case OPSCRIPT_QUEUE_LENGTH: queueLength = count
        case OPSCRIPT_QUEUES: queues = count
        case OPSCRIPT_TIMERS: timers = count
        case OPSCRIPT_CHANNEL_BYTES: channelBytes = count
        case OPSCRIPT_MEMORY_BYTES: memory = count
        default: throw Misuse("there is no limit with the number \(limit.rawValue)")
        }
    }
}
