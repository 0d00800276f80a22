import Glibc
import LuaBindings

/// The metrics that the status page serves at `/metrics`, in the text format of Prometheus.
struct Metrics {
    /// At most so many queues are listed: those with the most operations.
    private static let queueCount = 100

    /// A log that has not been finished.
    let log: RunLog
    let workers: RunMonitor.Workers
    let clusters: RunMonitor.Clusters?
    /// The number of status pages that are open.
    let pages: Int

    var text: String {
        let totals = log.totals
        var text = ""
        family(&text, "opscript_build_info", "gauge", "The version of the command.", [("version=\"\(Opscript.version)\"", "1")])
        family(
            &text, "opscript_uptime_seconds", "gauge", "The time since the run began.", [("", Metrics.seconds(log.end))])
        family(
            &text, "opscript_operations_added_total", "counter", "Operations that were added to queues.", [("", "\(totals.added)")])
        family(
            &text, "opscript_operations_finished_total", "counter", "Operations that have finished, by outcome.",
            [("succeeded", totals.succeeded), ("failed", totals.failed), ("cancelled", totals.cancelled)]
                .map { ("outcome=\"\($0)\"", "\($1)") })
        family(
            &text, "opscript_operations", "gauge", "Operations that have not finished, by state.",
            zip(Metrics.states, log.queues.map(Metrics.counts).reduce([0, 0, 0]) { zip($0, $1).map(+) })
                .map { ("state=\"\($0)\"", "\($1)") })
        family(
            &text, "opscript_queue_operations", "gauge", "Operations that have not finished, by queue and state.", queues)
        family(
            &text, "opscript_workers", "gauge", "Worker threads, by what they do.",
            [("busy", workers.busy), ("blocked", workers.blocked), ("idle", workers.idle)].map { ("state=\"\($0)\"", "\($1)") })
        if let clusters {
            family(&text, "opscript_cluster_workers", "gauge", "Workers of clusters that answer.", [("", "\(clusters.workers)")])
            family(&text, "opscript_cluster_slots", "gauge", "Operations that these workers run at once.", [("", "\(clusters.slots)")])
            family(
                &text, "opscript_cluster_seconds_total", "counter", "The time that operations have spent at these workers.",
                [("", Metrics.seconds(totals.clusterTime))])
        }
        histogram(
            &text, "opscript_operation_duration_seconds", "The time from the start of operations to their end.", totals.runTimes)
        histogram(
            &text, "opscript_operation_wait_seconds", "The time from the adding of operations to their start.", totals.waitTimes)
        family(&text, "opscript_programs", "gauge", "Programs that are running.", [("", "\(totals.programsRunning)")])
        family(
            &text, "opscript_programs_started_total", "counter", "Programs that were started, by the script or by operations.",
            [("", "\(totals.programsStarted)")])
        family(&text, "opscript_status_pages", "gauge", "Status pages that are open.", [("", "\(pages)")])
        family(
            &text, "process_resident_memory_bytes", "gauge", "The memory of the process that is in use.",
            Metrics.residentMemory.map { [("", "\($0)")] } ?? [])
        family(
            &text, "process_cpu_seconds_total", "counter", "The processor time of the process.",
            [("", Metrics.seconds(Metrics.processorTime))])
        return text
    }

    private static let states = ["waiting", "ready", "executing"]

    /// The number of a queue's operations in each of the states.
    private static func counts(_ queue: RunLog.Queue) -> [Int] { [queue.waiting, queue.ready, queue.executing] }

    /// The samples of the queues that have operations. Queues of the same name are counted together.
    private var queues: [(labels: String, value: String)] {
        var counts: [String: [Int]] = [:]
        for queue in log.queues {
            let own = Metrics.counts(queue)
            if own == [0, 0, 0] { continue }
            let name = Metrics.label(queue.name.text)
            counts[name] = zip(counts[name] ?? [0, 0, 0], own).map(+)
        }
        let largest = counts.sorted { (-$0.value.reduce(0, +), $0.key) < (-$1.value.reduce(0, +), $1.key) }.prefix(Metrics.queueCount)
        return largest.flatMap { name, counts in
            zip(Metrics.states, counts).map { ("queue=\"\(name)\",state=\"\($0)\"", "\($1)") }
        }
    }

    // MARK: the format

    private func family(
        _ text: inout String, _ name: String, _ type: String, _ help: String, _ samples: [(labels: String, value: String)]
    ) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
        for (labels, value) in samples { text += labels.isEmpty ? "\(name) \(value)\n" : "\(name){\(labels)} \(value)\n" }
    }

    private func histogram(_ text: inout String, _ name: String, _ help: String, _ times: TimeHistogram) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) histogram\n"
        let counts = times.cumulativeCounts
        for (limit, count) in zip(TimeHistogram.limits, counts) { text += "\(name)_bucket{le=\"\(limit.text)\"} \(count)\n" }
        let all = counts.last ?? 0
        text += "\(name)_bucket{le=\"+Inf\"} \(all)\n\(name)_sum \(Metrics.seconds(times.sum))\n\(name)_count \(all)\n"
    }

    /// The value of a label. A name may have any character.
    private static func label(_ name: String) -> String {
        name.unicodeScalars.prefix(200).reduce(into: "") { label, scalar in
            switch scalar {
            case "\\": label += "\\\\"
            case "\"": label += "\\\""
            case _ where scalar.properties.generalCategory == .control: label += "\u{FFFD}"
            default: label.unicodeScalars.append(scalar)
            }
        }
    }

    private static func seconds(_ nanoseconds: UInt64) -> String { String(seconds: nanoseconds, decimals: 9) }

    // MARK: the process

    private static var residentMemory: Int? {
        guard let file = unsafe fopen("/proc/self/statm", "re") else { return nil }
        defer { unsafe fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 200)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe fread($0.baseAddress, 1, $0.count, file) }
        let fields = String(decoding: bytes.prefix(count), as: UTF8.self).split(separator: " ")
        return fields.count > 1 ? Int(fields[1]).map { $0 * Int(getpagesize()) } : nil
    }

    private static var processorTime: UInt64 {
        var time = timespec()
        // Safety: `time` is a local variable that outlives the call.
        unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
