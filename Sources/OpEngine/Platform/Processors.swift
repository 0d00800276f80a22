import CPlatform
import Glibc

/// How many processors this process may use: the affinity mask, lowered by the quota of its control group, whose hierarchy may be of
/// version 2, of version 1, or both.
struct Processors {
    static let available = Processors(files: readFile).count(affinity: Int(cplatform_affinity_count()))

    /// The text of a file, or nil.
    let files: (_ path: String) -> String?

    /// - Parameter affinity: the processors in the affinity mask; 0 when the kernel does not say.
    func count(affinity: Int) -> Int {
        let allowed = affinity > 0 ? affinity : max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        return max(1, min(allowed, quota ?? allowed))
    }

    /// Processors that the quota pays for, rounded up; nil without one. The tightest limit on the way to the root counts.
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
                        // -1: no limit.
                        let path = root + group + "/cpu.cfs_"
                        if let limit = integer(path + "quota_us"), let period = integer(path + "period_us") { take(limit, period) }
                    }
                }
            }
        }
        return least
    }

    /// The process's groups that can have a quota: those of version 2, which have no list of controllers, and of the controller `cpu`.
    /// A container sees its own group as the root, so without the file the root is the group.
    private var groups: [(controllers: String, path: String)] {
        guard let text = files("/proc/self/cgroup") else { return [("", "/"), ("cpu", "/")] }
        return text.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3, fields[1].isEmpty || fields[1].split(separator: ",").contains("cpu") else { return nil }
            return (String(fields[1]), String(fields[2]))
        }
    }

    /// `/a/b`, `/a` and the root, which is empty.
    private func ancestors(of path: String) -> [String] {
        let parts = path.split(separator: "/")
        return (0...parts.count).reversed().map { count in parts[..<count].map { "/" + $0 }.joined() }
    }

    private func integer(_ path: String) -> Int? {
        files(path)?.split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) }
    }
}

/// The first 4 KiB of a file, or nil.
func readFile(_ path: String) -> String? {
    // Safety: the path is a valid string.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
        // Safety: the buffer has the capacity that is passed.
        unsafe count = max(0, read(descriptor, buffer.baseAddress, 4096))
    }
    return String(decoding: bytes, as: UTF8.self)
}
