/// C strings for names. C keeps pointers to them. The class names come first.
enum StaticName {
    // Safety: string literals live as long as the process.
    nonisolated(unsafe) static let operation = unsafe pointer("Operation")
    nonisolated(unsafe) static let blockOperation = unsafe pointer("BlockOperation")
    nonisolated(unsafe) static let invocationOperation = unsafe pointer("InvocationOperation")
    nonisolated(unsafe) static let queue = unsafe pointer("OperationQueue")
    nonisolated(unsafe) static let error = unsafe pointer("OperationError")
    nonisolated(unsafe) static let timer = unsafe pointer("Timer")
    nonisolated(unsafe) static let process = unsafe pointer("Process")
    nonisolated(unsafe) static let object = unsafe pointer("object")
    nonisolated(unsafe) static let observation = unsafe pointer("KeyValueObservation")
    // Safety: string literals live as long as the process.
    nonisolated(unsafe) static let channel = unsafe pointer("Channel")
    nonisolated(unsafe) static let stream = unsafe pointer("Stream")

    // Safety: string literals live as long as the process.
    nonisolated(unsafe) static let groupOperation = unsafe pointer("GroupOperation")
    nonisolated(unsafe) static let completionBlock = unsafe pointer("completionBlock")

    /// The methods of a script's class that C calls.
    // Safety: string literals live as long as the process.
    nonisolated(unsafe) static let main = unsafe pointer("main")
    nonisolated(unsafe) static let start = unsafe pointer("start")

    private static func pointer(_ name: StaticString) -> UnsafePointer<CChar> {
        unsafe UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
    }
}
