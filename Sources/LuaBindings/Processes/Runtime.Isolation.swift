#if canImport(Glibc)
    import Glibc
#endif

extension Runtime {
    /// The place where the bodies of operations run.
    public struct Isolation: Sendable {
        enum Form {
            case threads
            case process(executable: String?)
        }

        let form: Form
        /// The time in which a new worker process must answer. An executable that takes longer does not serve.
        var setUpTime = Duration.seconds(10)

        /// The executable of worker processes.
        struct Executable {
            let path: String
            let setUpTime: Duration
        }

        /// Bodies run in threads of this process.
        public static let threads = Isolation(form: .threads)

        /// Bodies run in worker processes, one for each worker. If such a process ends, only the operation that it runs fails. The executable is
        /// `opscript-worker` in the folder of this process's executable, or else in `PATH`.
        public static let process = Isolation(form: .process(executable: nil))

        /// Like `process`, with the path of an executable that calls `WorkerProcess.serveIfRequested`.
        public static func process(executable: String) -> Isolation { Isolation(form: .process(executable: executable)) }

        /// The executable of worker processes; nil for threads.
        ///
        /// - Throws: an error if there is no such file.
        func resolve() throws(LuaError) -> Executable? {
            guard case .process(let named) = form else { return nil }
            return Executable(path: try Self.path(of: named), setUpTime: setUpTime)
        }

        private static func path(of named: String?) throws(LuaError) -> String {
            if let named {
                if unsafe access(named, X_OK) == 0 { return named }
                throw LuaError(message: "the worker executable '\(named)' (Configuration.isolation) cannot be executed")
            }
            let name = "opscript-worker"
            let path = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? ""
            var places = path.split(separator: ":").map(String.init)
            if let own = folderOfExecutable { places.insert(own, at: 0) }
            for place in places where unsafe access("\(place)/\(name)", X_OK) == 0 { return "\(place)/\(name)" }
            throw LuaError(
                message:
                    "there is no \(name) beside this program or in PATH: build it, or name a worker executable in Configuration.isolation")
        }

        private static var folderOfExecutable: String? {
            var path = [CChar](repeating: 0, count: Int(PATH_MAX))
            let count = unsafe readlink("/proc/self/exe", &path, path.count)
            guard count > 0 else { return nil }
            let text = String(decoding: path.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
            return text.lastIndex(of: "/").map { String(text[..<$0]) }
        }
    }
}
