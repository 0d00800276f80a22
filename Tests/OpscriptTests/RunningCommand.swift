import Glibc

/// A command that runs beside the test.
final class RunningCommand {
    let output: LineReader
    let errors: LineReader
    private let input: Int32
    private let child: ChildProcess
    private var hasEnded = false

    init(_ command: Command) throws {
        let (input, output, errors) = (try ChildProcess.makePipe(), try ChildProcess.makePipe(), try ChildProcess.makePipe())
        child = try command.start(streams: [input.read, output.write, errors.write])
        for descriptor in [input.read, output.write, errors.write] { close(descriptor) }
        self.input = input.write
        (self.output, self.errors) = (LineReader(output.read), LineReader(errors.read))
    }

    /// Ends a command that no test has waited for.
    deinit {
        guard !hasEnded else { return }
        kill(child.identifier, SIGKILL)
        _ = try? wait()
    }

    /// Writes to the command's standard input.
    func type(_ text: String) {
        let bytes = Array(text.utf8)
        unsafe write(input, bytes, bytes.count)
    }

    /// Closes the command's standard input, waits for the end and returns the status. Call once.
    func wait() throws -> Int32 {
        hasEnded = true
        close(input)
        guard let status = try child.wait(seconds: 60) else { throw CommandError(description: "the command did not end") }
        return status
    }
}

/// The lines that arrive at the reading end of a pipe.
final class LineReader {
    private let descriptor: Int32
    private var bytes: [UInt8] = []
    private var next = 0

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// The next line. Fails at the end, or after so many seconds without one.
    func line(within seconds: Int? = 60) throws -> String {
        var scanned = next
        while true {
            if let end = bytes[scanned...].firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: bytes[next..<end], as: UTF8.self)
                next = end + 1
                if next > 1 << 16 {
                    bytes.removeFirst(next)
                    next = 0
                }
                return line
            }
            scanned = bytes.count
            var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard unsafe poll(&event, 1, seconds.map { Int32($0 * 1000) } ?? -1) == 1 else {
                throw CommandError(description: "no line after \(seconds ?? 0) seconds")
            }
            var chunk = [UInt8](repeating: 0, count: 65536)
            let count = unsafe read(descriptor, &chunk, chunk.count)
            guard count > 0 else {
                throw CommandError(description: "no more lines after: \(String(decoding: bytes, as: UTF8.self).suffix(500))")
            }
            bytes += chunk[..<count]
        }
    }
}
