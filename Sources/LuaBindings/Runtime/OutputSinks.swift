/// The destinations of the output of scripts and of the runtime: the host's sinks, or stdout and stderr.
struct OutputSinks: Sendable {
    let output: (@Sendable ([UInt8]) -> Void)?
    let errorOutput: (@Sendable ([UInt8]) -> Void)?

    /// Whether there is a sink.
    var redirect: Bool { output != nil || errorOutput != nil }

    /// Writes the output of a script to stdout (1) or stderr (2).
    func write(_ bytes: UnsafeRawBufferPointer, to stream: Int32) {
        if let sink = stream == 1 ? output : errorOutput { return unsafe sink(Array(bytes)) }
        if stream == 1 { unsafe StandardOutput.write(bytes) } else { unsafe StandardError.write(bytes) }
    }

    /// Writes a message of the runtime.
    func report(_ text: String) {
        if let errorOutput { errorOutput(Array(text.utf8)) } else { StandardError.write(text) }
    }
}
