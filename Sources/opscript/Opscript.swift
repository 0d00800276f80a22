import Glibc
import LuaBindings

/// The command.
@main
struct Opscript {
    static let version = "0.2.0"

    static func main() {
        let words = CommandLine.arguments
        let name = words.first ?? "opscript"
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
}
