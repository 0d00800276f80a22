import Glibc
import LuaBindings

/// The command.
@main
struct Opscript {
    static let version = Runtime.version

    static func main() {
        // The command is also installed under a second name: as the executable for worker processes of programs that use the library for C.
        WorkerProcess.serveIfRequested()
        openStandardDescriptors()
        Runtime.checkOutputAtExit()
        let words = CommandLine.arguments
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

    private static func attach(_ arguments: [String], name: String) -> Int32 {
        do throws(AttachError) { try AttachedPrompt.run(arguments) } catch {
            Message.write("\(name): \(error.message)\n")
            return 1
        }
        return 0
    }
}
