import CLua

extension Runtime {
    /// The libraries that scripts of a runtime may use, in the main state and in operations. The default allows everything.
    ///
    /// ```swift
    /// var configuration = Runtime.Configuration()
    /// configuration.sandbox = .untrusted
    /// configuration.limits = .untrusted
    /// ```
    ///
    /// Forbidden libraries are absent, so that scripts can ask for them: `io == nil`.
    public struct Sandbox: Sendable {
        /// `io`, `opscript.fs`, `dofile`, `loadfile`, `os.remove`, `os.rename`, `os.tmpname`, `package.searchpath`, the condition `"fileExists"`, and the
        /// options `inputs`, `outputs` and `depfile` of operations.
        public var allowsFiles = true
        /// `io.popen`, `os.execute`, `os.exit`, `os.getenv`, `os.setlocale`, `warn`, and the option `env` of operations. Without it,
        /// formats of `os.date` have at most 1,000 bytes.
        public var allowsSystem = true
        /// The library `debug`.
        public var allowsDebug = true
        /// `string.dump`, and `load` of binary chunks. Invalid bytecode can crash the process. Without it there are no `dofile` and
        /// `loadfile`. Modules on `package.path` are the host's, and may be bytecode.
        public var allowsBytecode = true
        /// Modules in C, which can do anything and cannot be stopped: `package.cpath` and `package.loadlib`.
        public var allowsCModules = true
        /// Modules from `package.path`.
        public var allowsModuleFiles = true
        /// Finalizers, that is, `__gc` in a metatable. A finalizer that does not end is stopped only while its operation runs, not when its
        /// state closes.
        public var allowsFinalizers = true
        /// The options of `collectgarbage` that change how garbage is collected.
        public var allowsCollectorChanges = true
        /// `opscript.process` and `opscript.sh`.
        public var allowsProcesses = true
        /// `opscript.fetch`, which reaches all servers that the host does, also those on this machine. Its options `output`, `cafile` and
        /// `netrc` need `allowsFiles`, too.
        public var allowsNetwork = true
        /// `opscript.prelude`, and changes of `opscript.resources`: both concern all operations.
        public var allowsPreludes = true

        /// Allows everything.
        public init() {}

        /// For untrusted scripts: nothing but the language, `coroutine`, `math`, `string`, `table`, `utf8`, `os.clock`,
        /// `os.date`, `os.difftime` and `os.time`, JSON, and operations, queues, timers and channels.
        public static var untrusted: Sandbox {
            var sandbox = Sandbox()
            sandbox.allowsFiles = false
            sandbox.allowsSystem = false
            sandbox.allowsDebug = false
            sandbox.allowsBytecode = false
            sandbox.allowsCModules = false
            sandbox.allowsModuleFiles = false
            sandbox.allowsFinalizers = false
            sandbox.allowsCollectorChanges = false
            sandbox.allowsProcesses = false
            sandbox.allowsNetwork = false
            sandbox.allowsPreludes = false
            return sandbox
        }

        /// The `clua_restriction` bits.
        var restrictions: UInt32 {
            var bits: UInt32 = 0
            func add(_ restriction: clua_restriction, unless isAllowed: Bool) { if !isAllowed { bits |= restriction.rawValue } }
            add(CLUA_NO_FILES, unless: allowsFiles)
            add(CLUA_NO_SYSTEM, unless: allowsSystem)
            add(CLUA_NO_DEBUG, unless: allowsDebug)
            add(CLUA_NO_BYTECODE, unless: allowsBytecode)
            add(CLUA_NO_C_MODULES, unless: allowsCModules)
            add(CLUA_NO_MODULE_FILES, unless: allowsModuleFiles)
            add(CLUA_NO_FINALIZERS, unless: allowsFinalizers)
            add(CLUA_NO_COLLECTOR, unless: allowsCollectorChanges)
            add(CLUA_NO_NETWORK, unless: allowsNetwork)
            return bits
        }
    }
}
