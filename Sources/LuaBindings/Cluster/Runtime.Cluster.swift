public import OpCluster

extension Runtime {
    /// A cluster's servers, and the secret that its members share. The operations of a queue that uses the cluster run on its workers.
    /// Everything else about them stays in this process.
    ///
    /// - Note: Workers run code that they receive. Use a cluster with TLS, credentials and a key, unless all of it is on one machine.
    public struct Cluster: Sendable {
        /// The servers, and how to connect to them.
        public var server: NatsFabric.Settings
        /// The secret that this process shares with the workers; nil for none.
        public var key: ClusterKey?
        /// Whether a server on another machine may be used without TLS, credentials and a key.
        public var allowsInsecure = false
        /// Whether all queues that scripts make use the cluster, unless they say otherwise.
        public var isDefault = false
        /// Whether each line that operations print begins with the name of its worker.
        public var marksOutput = false
        /// Whether a person is told when operations have waited for five seconds without any worker. See also `RunMonitor.clusters`.
        public var tellsOfAbsence = true
        /// Receives messages for a person, such as that the connection was lost. Nil for the runtime's messages on stderr.
        public var notice: (@Sendable (String) -> Void)?

        /// Makes the settings for a cluster.
        public init(_ server: NatsFabric.Settings, key: ClusterKey? = nil) { (self.server, self.key) = (server, key) }

        /// Makes the settings for the cluster of a server.
        public init(url: String) { self.init(NatsFabric.Settings(url: url)) }

        /// Refuses a cluster that strangers could use to run code on the workers, and settings that cannot be right.
        ///
        /// - Throws: an error that says what is missing or wrong.
        public func checkSecurity() throws(ClusterError) {
            try server.check()
            if allowsInsecure || server.isLoopback { return }
            var missing: [String] = []
            if !server.usesTLS { missing.append("TLS (a URL that begins with tls://)") }
            if !server.hasCredentials { missing.append("credentials (--creds FILE, --nkey FILE, --cert FILE, or a user)") }
            if key == nil { missing.append("a key (--key FILE)") }
            if missing.isEmpty { return }
            throw ClusterError(
                "a cluster runs code that comes over the network, so it needs \(missing.joined(separator: ", and ")); "
                    + "or say --insecure, if everybody who reaches the server may run programs here")
        }
    }
}
