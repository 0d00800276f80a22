public import COpscript
import LuaBindings

/// The object behind `opscript_configuration`.
// Safety: the header says that one thread at a time uses a configuration.
final class ConfigurationObject: @unchecked Sendable {
    private var settings = Runtime.Configuration()
    /// The settings of the store. They are kept even without a folder, so that a program may make them in any order.
    private var store = Runtime.Store(directory: "")
    /// The first setting that was refused. `opscript_runtime_new` reports it.
    private var refusal: Misuse?

    func change(_ body: (inout Runtime.Configuration) throws -> Void) { note { try body(&settings) } }

    func changeStore(_ body: (inout Runtime.Store) throws -> Void) { note { try body(&store) } }

    private func note(_ change: () throws -> Void) {
        do { try change() } catch { refusal = refusal ?? error as? Misuse }
    }

    /// The settings of a runtime.
    ///
    /// - Throws: the first setting that was refused.
    func complete() throws -> Runtime.Configuration {
        if let refusal { throw refusal }
        var complete = settings
        if !store.directory.isEmpty { complete.store = store }
        return complete
    }
}

/// Applies a setting; does nothing for NULL.
func change(_ configuration: OpaquePointer?, _ body: (inout Runtime.Configuration) throws -> Void) {
    object(configuration, as: ConfigurationObject.self)?.change(body)
}

/// The greatest number of workers that a program can ask for.
private let maximumWorkers = 4096

/// `opscript_configuration_new`
@_cdecl("opscript_configuration_new")
public func newConfiguration() -> OpaquePointer? { retained(ConfigurationObject()) }

/// `opscript_configuration_set_workers`
@_cdecl("opscript_configuration_set_workers")
public func setWorkers(_ configuration: OpaquePointer?, _ count: CInt) {
    change(configuration) {
        guard (0...maximumWorkers).contains(Int(count)) else {
            throw Misuse("the number of workers is \(count), and must be 0 to \(maximumWorkers)")
        }
        $0.workerCount = count == 0 ? nil : Int(count)
    }
}

/// `opscript_configuration_set_idle_time`
@_cdecl("opscript_configuration_set_idle_time")
public func setIdleTime(_ configuration: OpaquePointer?, _ seconds: Double) {
    change(configuration) { $0.idleTime = try duration(seconds, "the idle time") ?? longest }
}

/// `opscript_configuration_set_state_memory_limit`
@_cdecl("opscript_configuration_set_state_memory_limit")
public func setStateMemoryLimit(_ configuration: OpaquePointer?, _ bytes: Int) {
    change(configuration) { $0.stateMemoryLimit = limit(bytes) }
}

/// `opscript_configuration_set_operation_memory_limit`
@_cdecl("opscript_configuration_set_operation_memory_limit")
public func setOperationMemoryLimit(_ configuration: OpaquePointer?, _ bytes: Int) {
    change(configuration) { $0.operationMemoryLimit = limit(bytes) }
}

/// A size_t of more than half of the address space, which is negative here, is no limit either.
private func limit(_ bytes: Int) -> Int? { bytes > 0 ? bytes : nil }

/// `opscript_configuration_set_worker_processes`
@_cdecl("opscript_configuration_set_worker_processes")
public func setWorkerProcesses(_ configuration: OpaquePointer?, _ executable: UnsafePointer<CChar>?) {
    let path = executable.map { String(cString: $0) }
    change(configuration) { $0.isolation = path.map { .process(executable: $0) } ?? .process }
}

/// `opscript_configuration_set_host_adds_operations`
@_cdecl("opscript_configuration_set_host_adds_operations")
public func setHostAddsOperations(_ configuration: OpaquePointer?, _ value: Bool) {
    change(configuration) { $0.hostMayAddOperations = value }
}

/// `opscript_configuration_set_ignores_environment`
@_cdecl("opscript_configuration_set_ignores_environment")
public func setIgnoresEnvironment(_ configuration: OpaquePointer?, _ value: Bool) {
    change(configuration) { $0.ignoresEnvironment = value }
}

/// `opscript_configuration_set_output`
@_cdecl("opscript_configuration_set_output")
public func setOutput(
    _ configuration: OpaquePointer?, _ output: opscript_sink?, _ userData: UnsafeMutableRawPointer?, _ destroy: opscript_destructor?
) {
    let data = UserData(userData, destroy)
    change(configuration) { $0.output = output.map { sink($0, data) } }
}

/// `opscript_configuration_set_error_output`
@_cdecl("opscript_configuration_set_error_output")
public func setErrorOutput(
    _ configuration: OpaquePointer?, _ output: opscript_sink?, _ userData: UnsafeMutableRawPointer?, _ destroy: opscript_destructor?
) {
    let data = UserData(userData, destroy)
    change(configuration) { $0.errorOutput = output.map { sink($0, data) } }
}

/// `opscript_configuration_set_module_paths`
@_cdecl("opscript_configuration_set_module_paths")
public func setModulePaths(_ configuration: OpaquePointer?, _ list: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int) {
    change(configuration) { $0.modulePaths = try paths(list, count) }
}

/// `opscript_configuration_set_c_module_paths`
@_cdecl("opscript_configuration_set_c_module_paths")
public func setCModulePaths(_ configuration: OpaquePointer?, _ list: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int) {
    change(configuration) { $0.cModulePaths = try paths(list, count) }
}

private func paths(_ list: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int) throws -> [String] {
    if count == 0 { return [] }
    guard let list, count > 0 else { throw Misuse("the list of paths is NULL or too long") }
    return try (0..<count).map { try text(list[$0], "a path") }
}

/// `opscript_configuration_set_module_loader`
@_cdecl("opscript_configuration_set_module_loader")
public func setModuleLoader(
    _ configuration: OpaquePointer?, _ loader: opscript_host_function?, _ userData: UnsafeMutableRawPointer?,
    _ destroy: opscript_destructor?
) {
    let data = UserData(userData, destroy)
    change(configuration) {
        $0.moduleLoader = loader.map { loader in
            let load = hostFunction(loader, data)
            return { module in
                guard let source = try load([.string(module)]).first, !source.isNil else { return nil }
                guard let text = source.text else { throw Misuse("the module loader must return UTF-8 text") }
                return text
            }
        }
    }
}

/// `opscript_configuration_set_prelude`
@_cdecl("opscript_configuration_set_prelude")
public func setPrelude(_ configuration: OpaquePointer?, _ source: UnsafePointer<CChar>?, _ length: Int) {
    change(configuration) { $0.prelude = try text(source, length, "the prelude") }
}

/// `opscript_configuration_set_random_seed`
@_cdecl("opscript_configuration_set_random_seed")
public func setRandomSeed(_ configuration: OpaquePointer?, _ seed: UInt64) { change(configuration) { $0.randomSeed = seed } }

/// `opscript_configuration_free`
@_cdecl("opscript_configuration_free")
public func freeConfiguration(_ configuration: OpaquePointer?) { release(configuration, as: ConfigurationObject.self) }
