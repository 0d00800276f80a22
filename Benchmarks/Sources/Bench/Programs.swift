import Foundation

/// Where the subjects are, and how to run them.
struct Programs {
    /// The folder of the built subjects.
    let folder: String
    /// The path of the command `opscript`.
    let opscript: String
    /// The folder of the benchmark scripts.
    let scripts: String
    /// The peers that are not installed, and `valgrind` if it is not installed.
    let missing: Set<String>

    func path(of program: String) -> String { folder + "/" + program }

    func isThere(_ path: String) -> Bool { FileManager.default.isExecutableFile(atPath: path) }

    /// Compares the processor time per operation instead of the value.
    var comparesProcessorTime = false

    /// The smallest value that the programs of a subject print; nil when none of them has the workload.
    func run(_ subject: Subject) throws(Failure) -> Double? {
        var least: Double?
        for command in subject.commands {
            guard let value = try run(command) else { continue }
            least = min(least ?? value, value)
        }
        return least
    }

    private func run(_ command: [String]) throws(Failure) -> Double? {
        touchMemory()
        let (status, output) = try execute(command)
        if status == 3 { return nil }
        // The last line has the value and the processor time.
        let numbers = output.split(separator: "\n").last?.split(whereSeparator: \.isWhitespace).compactMap { Double($0) } ?? []
        guard status == 0, let value = comparesProcessorTime && numbers.count == 2 ? numbers[1] : numbers.first else {
            throw Failure("\(command.joined(separator: " ")) ended with \(status) and printed \(output.debugDescription)")
        }
        return value
    }
}

struct Failure: Error {
    let text: String
    init(_ text: String) { self.text = text }
}

/// Touches 256 MB of memory and frees it, so that the kernel has pages ready for the next subject. A virtual machine may return pages
/// that it has not used for seconds to its host, and getting such a page back takes thirty times as long. No subject should pay for the
/// memory that an earlier one used.
private func touchMemory() {
    let size = 256 << 20
    guard let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), memory != MAP_FAILED else { return }
    madvise(memory, size, MADV_HUGEPAGE)
    for offset in stride(from: 0, to: size, by: 4096) { memory.storeBytes(of: 1, toByteOffset: offset, as: UInt8.self) }
    munmap(memory, size)
}

/// Runs a program and returns its status and its output.
func execute(_ command: [String]) throws(Failure) -> (status: Int32, output: String) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = command
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardInput = FileHandle.nullDevice
    do {
        try process.run()
        let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: data, as: UTF8.self))
    } catch {
        throw Failure("cannot run \(command[0]): \(error.localizedDescription)")
    }
}

/// The number of instructions that a program executes, in millions, minus the number for an empty script.
func instructions(of command: [String]) throws(Failure) -> Double {
    func count(_ command: [String]) throws(Failure) -> Double {
        let counter = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1"]
        let (status, output) = try execute(counter + command)
        let line = output.split(separator: "\n").last { $0.contains("Collected") }
        guard status == 0, let number = line.flatMap({ Double($0.split(separator: " ").last ?? "") }) else {
            throw Failure("callgrind does not count \(command.joined(separator: " ")):\n\(output)")
        }
        return number / 1_000_000
    }
    guard let script = command.last else { throw Failure(Bench.usage) }
    let empty = URL(fileURLWithPath: script).deletingLastPathComponent().path + "/empty.lua"
    return try count(command) - count(command.dropLast() + [empty])
}

/// The time from the start of a program to its end, in milliseconds: the median of three runs.
func startTime(of command: [String]) throws(Failure) -> Double {
    var times: [Double] = []
    for _ in 0..<3 {
        let start = ContinuousClock.now
        var process = pid_t()
        var arguments = command.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        guard posix_spawnp(&process, command[0], nil, nil, &arguments, environ) == 0 else { throw Failure("cannot run \(command[0])") }
        var status: Int32 = 0
        waitpid(process, &status, 0)
        guard status == 0 else { throw Failure("\(command.joined(separator: " ")) failed") }
        times.append((ContinuousClock.now - start) / .milliseconds(1))
    }
    times.sort()
    return times[times.count / 2]
}
