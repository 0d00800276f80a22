import CLua
import CTestSupport
import Glibc
import Testing

/// The calls that the kernel refuses to a worker process. Each test confines a process of its own.
@Suite(.disabled(if: has_thread_sanitizer() || has_address_sanitizer(), "sanitizers need more calls and address space"))
struct ConfinementTests {
    /// Confines a process, and calls `body` there.
    ///
    /// - Returns: 0 if `body` returns true, 1 if it returns false; 128 and the number of the signal that ends the process.
    private func status(_ confinement: clua_confinement, _ body: @escaping () -> Bool) -> Int32 {
        final class Task {
            let confinement: clua_confinement
            let body: () -> Bool
            init(_ confinement: clua_confinement, _ body: @escaping () -> Bool) { (self.confinement, self.body) = (confinement, body) }
        }
        let task = Task(confinement, body)
        var text = [CChar](repeating: 0, count: 256)
        let run: @convention(c) (UnsafeMutableRawPointer?) -> Void = { context in
            guard let context = unsafe context else { _exit(100) }
            let task = unsafe Unmanaged<Task>.fromOpaque(context).takeUnretainedValue()
            // The test's thread may block signals.
            var none = sigset_t()
            unsafe sigemptyset(&none)
            unsafe sigprocmask(SIG_SETMASK, &none, nil)
            var confinement = task.confinement
            guard unsafe clua_confine(&confinement) == 0 else { _exit(101) }
            _exit(task.body() ? 0 : 1)
        }
        return withExtendedLifetime(task) { unsafe fork_and_call(run, Unmanaged.passUnretained(task).toOpaque(), &text, text.count) }
    }

    /// Each of these makes a call, and returns whether the kernel refuses it.
    private static let opensFile: @Sendable () -> Bool = { unsafe open("/dev/null", O_RDONLY) < 0 && errno == EPERM }
    private static let removesFile: @Sendable () -> Bool = { unsafe unlink("/nowhere") < 0 && errno == EPERM }
    private static let opensSocket: @Sendable () -> Bool = { socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0) < 0 && errno == EPERM }
    private static let forks: @Sendable () -> Bool = { fork_here() < 0 && errno == EPERM }
    private static let signalsParent: @Sendable () -> Bool = { kill(getppid(), 0) < 0 && errno == EPERM }
    private static let signalsThreadOfParent: @Sendable () -> Bool = { !can_signal_thread(getppid()) && errno == EPERM }
    private static let readsLimitsOfParent: @Sendable () -> Bool = { !can_read_limits(getppid()) && errno == EPERM }
    private static let executesProgram: @Sendable () -> Bool = {
        var arguments: [UnsafeMutablePointer<CChar>?] = unsafe [nil]
        return unsafe execv("/bin/true", &arguments) < 0 && errno == EPERM
    }

    private let sandbox = clua_confinement(allows_programs: false, allows_files: false, allows_privileges: false, more_bytes: 0)

    @Test func filesSocketsAndProcessesAreRefused() {
        let calls = [
            Self.opensFile, Self.removesFile, Self.opensSocket, Self.forks, Self.signalsParent, Self.signalsThreadOfParent,
            Self.readsLimitsOfParent, Self.executesProgram,
        ]
        for (index, isRefused) in calls.enumerated() { #expect(status(sandbox, isRefused) == 0, "call \(index)") }
    }

    @Test func aProcessMaySignalItselfAndReadItsLimits() {
        let isAllowed = { can_signal_thread(getpid()) && can_read_limits(0) }
        #expect(status(sandbox, isAllowed) == 0)
    }

    @Test func filesCanBeAllowed() {
        var confinement = sandbox
        confinement.allows_files = true
        #expect(status(confinement, Self.opensFile) == 1 && status(confinement, Self.removesFile) == 1)
        #expect(status(confinement, Self.opensSocket) == 0 && status(confinement, Self.forks) == 0)
    }

    @Test func nothingIsRefusedWithoutASandbox() {
        let confinement = clua_confinement(allows_programs: true, allows_files: true, allows_privileges: true, more_bytes: 0)
        let calls = [
            Self.opensFile, Self.opensSocket, Self.forks, Self.signalsParent, Self.signalsThreadOfParent, Self.readsLimitsOfParent,
        ]
        for (index, isRefused) in calls.enumerated() { #expect(status(confinement, isRefused) == 1, "call \(index)") }
    }

    @Test func addressSpaceIsLimited() {
        let isRefused = {
            unsafe mmap(nil, 512 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM
        }
        var confinement = sandbox
        #expect(status(confinement, isRefused) == 1)
        confinement.more_bytes = 64 << 20
        #expect(status(confinement, isRefused) == 0)
    }

    @Test func processorTimeIsLimited() {
        let endless = { () -> Bool in
            clua_limit_processor_time(1)
            while true {}
        }
        #expect(status(sandbox, endless) == 128 + SIGXCPU)
    }
}
