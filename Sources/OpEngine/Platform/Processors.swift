import CPlatform
import Glibc

/// How many processors this process may use: the affinity mask, lowered by the cgroup's quota.
enum Processors {
    static let available: Int = {
        let mask = Int(cplatform_affinity_count())
        let allowed = mask > 0 ? mask : max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        guard let quota = quota() else { return allowed }
        return max(1, min(allowed, quota))
    }()

    /// Processors the cgroup's quota pays for, rounded up; nil without a limit.
    private static func quota() -> Int? {
        var least: Int?
        for path in cgroupPaths() {
            guard let text = readFile("/sys/fs/cgroup" + path + "/cpu.max") else { continue }
            let words = text.split(whereSeparator: \.isWhitespace)
            guard words.count == 2, let limit = Int(words[0]), let period = Int(words[1]), period > 0 else { continue }
            least = min(least ?? .max, (limit + period - 1) / period)
        }
        if least == nil, let limit = readFile("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").flatMap(integer),
            let period = readFile("/sys/fs/cgroup/cpu/cpu.cfs_period_us").flatMap(integer), limit > 0, period > 0
        {
            least = (limit + period - 1) / period
        }
        return least
    }

    /// This process's cgroup and its ancestors: the tightest limit counts. A container sees its own group as the root.
    private static func cgroupPaths() -> [String] {
        guard let text = readFile("/proc/self/cgroup"),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("0::/") })
        else { return [""] }
        var parts = line.dropFirst(4).split(separator: "/")
        var paths = [""]
        while !parts.isEmpty {
            paths.append("/" + parts.joined(separator: "/"))
            parts.removeLast()
        }
        return paths
    }

    private static func integer(_ text: String) -> Int? {
        text.split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) }
    }

    /// The first 4 KiB of a file, or nil.
    private static func readFile(_ path: String) -> String? {
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
}
