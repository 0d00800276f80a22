import OpCluster
import OpEngine
import OpPlatform

/// The clusters that a runtime is connected to, by the URLs of their servers. A connection is made when a queue first needs it, and lasts
/// as long as the runtime.
final class ClusterConnections: Sendable {
    private struct State {
        var connections: [String: ClusterConnection] = [:]
        var isClosed = false

        /// The connection to a server; nil if it failed. The next use of that server connects again.
        func usable(_ url: String) -> ClusterConnection? { connections[url].flatMap { $0.startError == nil ? $0 : nil } }
    }

    private let settings: Runtime.Cluster?
    private let scriptsMayChoose: Bool
    private let moduleLoader: (@Sendable (String) throws -> String?)?
    private let state = Guarded(State())

    init(_ configuration: Runtime.Configuration) {
        settings = configuration.cluster
        scriptsMayChoose = configuration.scriptsMayChooseClusters
        moduleLoader = configuration.moduleLoader
    }

    /// The connections that have started without an error.
    var all: [ClusterConnection] { state.withLock { Array($0.connections.values) }.filter { $0.hasStarted && $0.startError == nil } }

    /// Whether queues use the cluster unless they say otherwise.
    var isDefault: Bool { settings?.isDefault ?? false }

    /// The connection to the configured cluster, or to the cluster at a script's URL. It may not have started yet: see `whenStarted`.
    func connection(for url: String?, core: RuntimeCore) throws(LuaError) -> ClusterConnection {
        var wanted: Runtime.Cluster
        if let url {
            guard scriptsMayChoose || url == settings?.server.url else {
                throw LuaError(message: "this program does not let scripts choose a cluster: 'cluster' may be true or false")
            }
            wanted = settings ?? Runtime.Cluster(url: url)
            wanted.server.url = url
        } else if let settings {
            wanted = settings
        } else if core.servesCluster {
            throw LuaError(
                message: "a worker of a cluster cannot use the cluster: leave 'cluster' out, or make the queue in the script itself")
        } else {
            throw LuaError(
                message: "there is no cluster: give its server, as in cluster = \"nats://host:4222\", or run the script with --cluster")
        }
        let url = wanted.server.url
        if let known = state.withLock({ $0.usable(url) }) { return known }
        let made = try ClusterConnection(wanted, core: core, moduleLoader: moduleLoader)
        let connection = state.withLock { state -> ClusterConnection? in
            if state.isClosed { return nil }
            let known = state.usable(url)
            if known == nil { state.connections[url] = made }
            return known ?? made
        }
        guard let connection else { throw LuaError.closed }
        if connection === made { connection.connect() }
        return connection
    }

    func close() {
        let connections = state.withLock { state in
            state.isClosed = true
            defer { state.connections = [:] }
            return state.connections
        }
        for connection in connections.values { connection.close() }
    }
}

extension Runtime {
    /// An executor for a queue whose operations run on the configured cluster.
    ///
    /// ```swift
    /// let queue = OperationQueue(engine: runtime.engine)
    /// queue.underlyingQueue = try runtime.clusterExecutor(named: "render")
    /// queue.addOperation(LuaOperation(render, arguments: [.string(file)]))
    /// ```
    ///
    /// Only operations whose bodies are Lua functions run on workers. Others in the queue run in this process. Each queue needs an executor
    /// of its own. Any thread may call this. The first call connects; each call waits until the connection has started.
    ///
    /// - Throws: an error if no cluster is configured, or connecting fails.
    public func clusterExecutor(
        named name: String = "", delivery: ClusterExecutor.Delivery = ClusterExecutor.Delivery()
    ) throws(LuaError) -> ClusterExecutor {
        let connection = try core.clusters.connection(for: nil, core: core)
        let hasStarted = Awaited<Void>()
        connection.whenStarted { hasStarted.give(()) }
        hasStarted.get()
        return try connection.executor(named: name, delivery)
    }
}
