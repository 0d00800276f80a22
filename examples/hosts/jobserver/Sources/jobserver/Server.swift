import CServer
import Foundation

/// Takes scripts from clients and runs them on threads of its own.
final class Server: @unchecked Sendable {
    // Safety: `condition` guards `waiting`; the pointers in it belong to the thread that takes them. The rest is constant.
    private let condition = NSCondition()
    private var waiting: [OpaquePointer] = []
    private let deadlines = Deadlines(time: Job.seconds)

    /// The number of scripts that run at once: more than processors, so that scripts that compute until their deadline do not stop all others.
    private static let threads = 16 * max(2, ProcessInfo.processInfo.activeProcessorCount)
    /// The number of scripts that may wait.
    private static let limit = 1000

    /// Serves on a port of this machine; 0 chooses one. Returns the port, or 0 on failure.
    func start(port: Int32) -> Int32 {
        for _ in 0..<Self.threads {
            let thread = Thread { [self] in work() }
            thread.stackSize = 1 << 20
            thread.start()
        }
        let limits = cs_limits(body_bytes: 256 << 10, connections: 800, connections_of_address: 400, idle_seconds: 5)
        return cs_serve(
            port, limits,
            { context, request in Unmanaged<Server>.fromOpaque(context!).takeUnretainedValue().take(request!) },
            Unmanaged.passRetained(self).toOpaque())
    }

    private func take(_ request: OpaquePointer) {
        let isTaken = condition.withLock {
            if waiting.count >= Self.limit { return false }
            waiting.append(request)
            condition.signal()
            return true
        }
        if !isTaken { reply(request, 503, Job.error("request", "too many scripts wait: try again later")) }
    }

    private func work() {
        while true {
            let request = condition.withLock {
                while waiting.isEmpty { condition.wait() }
                return waiting.removeFirst()
            }
            guard String(cString: cs_path(request)) == "/run" else {
                reply(request, 404, Job.error("request", "there is only /run"))
                continue
            }
            var count = 0
            let body = UnsafeRawBufferPointer(start: cs_body(request, &count), count: count)
            reply(request, 200, Job(script: String(decoding: body, as: UTF8.self)).run(deadlines))
        }
    }

    private func reply(_ request: OpaquePointer, _ status: UInt32, _ text: String) {
        var text = text
        text.withUTF8 { cs_reply(request, status, $0.baseAddress, $0.count) }
    }
}
