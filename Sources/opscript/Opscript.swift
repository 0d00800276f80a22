import Glibc
import LuaBindings
import OpPlatform

/// The command.
@main
struct Opscript {
    static let version = Runtime.version

    static func main() {
        // The command is also installed under a second name: as the executable for worker processes of programs that use the library for C.
        WorkerProcess.serveIfRequested()
        openStandardDescriptors()
        makeOutputBlock()
        EndingSignal.prepare()
        Runtime.checkOutputAtExit()
        let words = processArguments
        let name = words.first ?? "opscript"
        if words.count > 1 {
            let rest = Array(words.dropFirst(2))
            switch words[1] {
            case "attach": exit(attach(rest, name: name))
            case "worker": exit(WorkerCommand.run(rest, name: name))
            case "workers": exit(WorkersCommand.run(rest, name: name))
            default: break
            }
        }
        do throws(UsageError) {
            let options = try Options(words)
            if options.showsHelp { return print(Usage.help, terminator: "") }
            if options.showsVersion { return print("opscript \(version), \(Runtime.luaCopyright)") }
            exit(Command(options, name: name).run())
        } catch {
            Message.write("\(name): \(error.message)\n\(Usage.short(name: name))\n")
            exit(1)
        }
    }

    /// Opens `/dev/null` for each standard descriptor that is closed, so that no other file gets its number.
    private static func openStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            _ = unsafe open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY)
        }
    }

    /// Makes writes to stdout and stderr wait for room. Another program may have made the pipe or terminal non-blocking, and may rely on that, so
    /// this process opens its own descriptors where it can.
    private static func makeOutputBlock() {
        for descriptor in STDOUT_FILENO...STDERR_FILENO {
            let flags = fcntl(descriptor, F_GETFL)
            guard flags >= 0, flags & O_NONBLOCK != 0 else { continue }
            var about = stat()
            let isReopened = unsafe fstat(descriptor, &about) == 0 && [S_IFIFO, S_IFCHR].contains(about.st_mode & S_IFMT)
            let own = unsafe isReopened ? open("/proc/self/fd/\(descriptor)", flags & O_ACCMODE | O_NOCTTY | O_CLOEXEC) : -1
            if own >= 0 {
                dup2(own, descriptor)
                close(own)
            } else {
                _ = fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK)
            }
        }
    }

    private static func attach(_ arguments: [String], name: String) -> Int32 {
        do throws(AttachError) { try AttachedPrompt.run(arguments) } catch {
            Message.write("\(name): \(error.message)\n")
            return 1
        }
        return 0
    }
}
