import Glibc
import LuaBindings
import OpCluster
import Reports

/// The options of the command line for a cluster. A run, a worker and the list of workers share them.
struct ClusterOptions {
    /// The servers that `--cluster` names.
    private(set) var url: String?
    private var files: [String: String] = [:]
    private var isInsecure = false
    private var marksOutput = false

    /// The part of a help text about these options.
    static let usage = """
          --cluster URL         the NATS server, or several with commas between
          --key FILE            the secret that workers share with those who send operations
          --creds FILE          NATS credentials
          --nkey FILE           the seed of an nkey; a user may also be in OPSCRIPT_CLUSTER_USER and OPSCRIPT_CLUSTER_PASSWORD
          --ca FILE             the authorities whose certificates the server may have
          --cert FILE           a certificate that identifies this program to the server
          --cert-key FILE       the private key of that certificate
          --insecure            do without TLS, credentials and a key on a server that is not on this machine
        """

    /// The options that name a file.
    private static let fileOptions = ["--key", "--creds", "--nkey", "--ca", "--cert", "--cert-key"]

    /// Reads an option, whose value follows `=` or is the next word. Returns false if `word` is no option of this kind.
    mutating func read(_ word: String, from words: [String], _ index: inout Int) throws(UsageError) -> Bool {
        if word == "--insecure" {
            isInsecure = true
            return true
        }
        if word == "--no-direct" {
            throw UsageError(message: "'--no-direct' is gone: all messages pass the cluster's server now, so leave it out")
        }
        if word == "--mark-output" {
            marksOutput = true
            return true
        }
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard Self.fileOptions.contains(parts[0]) || parts[0] == "--cluster" else { return false }
        var value = parts.count > 1 ? parts[1] : ""
        if parts.count == 1, index < words.count {
            value = words[index]
            index += 1
        }
        guard parts[0] == "--cluster" else {
            if value.isEmpty { throw UsageError(message: "'\(parts[0])' needs a file") }
            files[parts[0]] = value
            return true
        }
        let server = NatsFabric.Settings(url: value)
        guard server.hasValidURL else {
            throw UsageError(message: "'--cluster' needs the URL of a NATS server, such as nats://host:4222, and not '\(server.shownURL)'")
        }
        url = value
        return true
    }

    /// The cluster; nil if the command line says nothing about one.
    ///
    /// - Throws: an error if the key cannot be read, or an option that makes the cluster secure is missing.
    func cluster() throws(ClusterError) -> Runtime.Cluster? {
        let given =
            files.keys.sorted().first ?? (isInsecure ? "--insecure" : marksOutput ? "--mark-output" : nil)
        guard let url else {
            // Scripts may name a cluster themselves, with the same key and credentials.
            return given == nil ? nil : try cluster(url: "")
        }
        return try cluster(url: url)
    }

    private func cluster(url: String) throws(ClusterError) -> Runtime.Cluster {
        var server = NatsFabric.Settings(url: url)
        server.user = Environment.value("OPSCRIPT_CLUSTER_USER")
        server.password = Environment.value("OPSCRIPT_CLUSTER_PASSWORD")
        server.credentials = files["--creds"]
        server.nkeySeed = files["--nkey"]
        server.authorities = files["--ca"]
        server.certificate = files["--cert"]
        server.privateKey = files["--cert-key"]
        if (server.certificate == nil) != (server.privateKey == nil) {
            throw ClusterError("'--cert' and '--cert-key' need each other")
        }
        var cluster = Runtime.Cluster(server)
        if let path = files["--key"] { cluster.key = try ClusterKey(file: path) }
        cluster.allowsInsecure = isInsecure
        cluster.isDefault = !url.isEmpty
        cluster.marksOutput = marksOutput
        if !url.isEmpty { try cluster.checkSecurity() }
        return cluster
    }
}
