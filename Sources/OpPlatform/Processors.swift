import CPlatform
import Glibc

/// Determines how many processors this process may use: the number in the affinity mask, limited by the quotas of its control groups.
/// Supports control groups of version 1, of version 2, and both at once.
public struct Processors {
    /// How many processors this process may use.
    public static let available = Processors(files: readFile).count(affinity: Int(cplatform_affinity_count()))

    /// Returns the text of a file, or nil. Replaced in tests.
    let files: (_ path: String) -> String?

    /// The number of processors.
    ///
    /// - Parameter affinity: the number of processors in the affinity mask; 0 if unknown.
    func count(affinity: Int) -> Int {
        let allowed = affinity > 0 ? affinity : max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        return max(1, min(allowed, quota ?? allowed))
    }

    /// The number of processors that the tightest quota allows, rounded up. Considers every group from the process's own up to the root.
    /// Nil without a quota.
    private var quota: Int? {
        var least: Int?
        func take(_ limit: Int, _ period: Int) {
            if limit > 0 && period > 0 { least = min(least ?? .max, (limit + period - 1) / period) }
        }
        for (controllers, path) in groups {
            for group in ancestors(of: path) {
                if controllers.isEmpty {
                    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
                        let words = (files(root + group + "/cpu.max") ?? "").split(whereSeparator: \.isWhitespace)
                        if words.count == 2, let limit = Int(words[0]), let period = Int(words[1]) { take(limit, period) }
                    }
                } else {
                    for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"] {
                        // A quota of -1 means that there is no limit.
                        let path = root + group + "/cpu.cfs_"
                        if let limit = integer(path + "quota_us"), let period = integer(path + "period_us") { take(limit, period) }
                    }
                }
            }
        }
        return least
    }

    /// The process's control groups that may have a quota: the group of version 2, which has no list of controllers, and the group of the
    /// `cpu` controller. The root if `/proc/self/cgroup` is missing, because a container sees its own group as the root.
    private var groups: [(controllers: String, path: String)] {
        guard let text = files("/proc/self/cgroup") else { return [("", "/"), ("cpu", "/")] }
        return text.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3, fields[1].isEmpty || fields[1].split(separator: ",").contains("cpu") else { return nil }
            return (String(fields[1]), String(fields[2]))
        }
    }

    /// For `/a/b`: `/a/b`, `/a` and the empty string, which is the root.
    private func ancestors(of path: String) -> [String] {
        let parts = path.split(separator: "/")
        return (0...parts.count).reversed().map { count in parts[..<count].map { "/" + $0 }.joined() }
    }

    private func integer(_ path: String) -> Int? {
        files(path)?.split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) }
    }
}

/// The first 4 KiB of a file; nil if the file cannot be opened.
public func readFile(_ path: String) -> String? {
    // Safety: `path` is passed as a valid C string.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
        // Safety: the capacity that is passed is the buffer's.
        unsafe count = max(0, read(descriptor, buffer.baseAddress, 4096))
    }
    return String(decoding: bytes, as: UTF8.self)
}
