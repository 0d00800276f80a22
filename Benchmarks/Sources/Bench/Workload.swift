/// The subject of a measurement: one or more programs that print a number.
struct Subject {
    var name: String
    /// Programs with their arguments. The smallest number that they print counts.
    var commands: [[String]]
}

/// A limit that a result is compared with.
struct Goal {
    /// The peer to compare with; nil: the limit applies to the value itself.
    var peer: String?
    /// The limit that must be reached, as a ratio to the peer's value: an upper limit, or a lower one where more is better.
    var must: Double?
    var best: Double?
}

struct Workload {
    var name: String
    var title: String
    var unit: String
    var ours: Subject
    var peers: [Subject]
    var goals: [Goal]
    var moreIsBetter = false
    /// How often each subject runs in a round, alternating with the others; the median counts. Short runs are repeated because a single
    /// one depends on chance.
    var turns = 1
}

/// All workloads of docs/performance.md. `programs` says where the subjects are. It also names the peers that are not installed; the workloads
/// leave them out.
struct Catalogue {
    let programs: Programs
    /// Does a tenth of the work.
    let isQuick: Bool

    private func count(_ full: Int) -> String { String(isQuick ? max(1, full / 10) : full) }

    private func subject(_ name: String, _ program: String, _ workload: String, _ full: Int) -> Subject {
        Subject(name: name, commands: [[programs.path(of: program), workload, count(full)]])
    }

    private func ours(_ workload: String, _ count: Int) -> Subject { subject("OpEngine", "OpEngineSubject", workload, count) }

    /// The peers of an engine workload. `slow` is the number of operations for slow peers.
    private func peers(_ workload: String, _ full: Int, slow: Int? = nil, without: Set<String> = []) -> [Subject] {
        let pools = ["lock", "steal"].map { [programs.path(of: "CSubject"), "\(workload)/\($0)", count(full)] }
        let all = [
            subject("Foundation", "FoundationSubject", workload, slow ?? full),
            subject("libdispatch", "DispatchSubject", workload, full),
            subject("TaskGroup", "TaskGroupSubject", workload, slow ?? full),
            subject("oneTBB", "TBBSubject", workload, full),
            Subject(name: "C", commands: pools),
        ]
        return all.filter { !without.contains($0.name) && programs.isThere($0.commands[0][0]) }
    }

    /// The workloads of the engine.
    var engine: [Workload] {
        [
            Workload(
                name: "W1", title: "flood: create, add, run", unit: "ns", ours: ours("W1", 1_000_000),
                peers: peers("W1", 1_000_000, slow: 100_000),
                goals: [Goal(peer: "Foundation", must: 1 / 14, best: 1 / 20), Goal(peer: "C", must: 2.5, best: 1.7)],
                turns: 3),
            Workload(
                name: "W1s", title: "add to a suspended queue", unit: "ns", ours: ours("W1s", 1_000_000),
                peers: peers("W1s", 1_000_000, slow: 100_000, without: ["TaskGroup", "oneTBB"]),
                goals: [Goal(peer: "Foundation", must: 1 / 10)], turns: 3),
            Workload(
                name: "W1s-bytes", title: "memory of a waiting operation", unit: "B", ours: ours("W1s-bytes", 100_000),
                peers: peers("W1s-bytes", 100_000, without: ["TaskGroup", "oneTBB"]),
                goals: [Goal(must: 256, best: 160)]),
            Workload(
                name: "W2", title: "chain, a link", unit: "ns", ours: ours("W2", 100_000),
                peers: peers("W2", 100_000, without: ["Foundation", "TaskGroup"]) + [
                    Subject(name: "1,000 links", commands: [[programs.path(of: "OpEngineSubject"), "W2", "1000"]])
                ],
                goals: [Goal(peer: "libdispatch", must: 1), Goal(peer: "1,000 links", must: 1.3), Goal(best: 50)]),
            Workload(
                name: "W3", title: "one, then 10,000, then one", unit: "ns", ours: ours("W3", 10_000), peers: peers("W3", 10_000),
                goals: [Goal(peer: "Foundation", must: 1 / 28, best: 1 / 45), Goal(peer: "libdispatch", must: 1)]),
            Workload(
                name: "W4", title: "layers, three dependencies each", unit: "ns", ours: ours("W4", 100_000), peers: peers("W4", 100_000),
                goals: [Goal(peer: "Foundation", must: 1 / 8.5, best: 1 / 12), Goal(peer: "oneTBB", must: 1, best: 0.7)],
                turns: 3),
            Workload(
                name: "W5", title: "add one and wait, median", unit: "µs", ours: ours("W5", 10_000),
                peers: peers("W5", 10_000, without: ["oneTBB"]), goals: [Goal(peer: "libdispatch", must: 1), Goal(best: 1)],
                turns: 3),
            Workload(
                name: "W6", title: "serial queue", unit: "ns", ours: ours("W6", 1_000_000), peers: peers("W6", 1_000_000, slow: 100_000),
                goals: [Goal(peer: "Foundation", must: 1 / 19, best: 1 / 26)], turns: 3),
            Workload(
                name: "W7", title: "five priorities", unit: "ns", ours: ours("W7", 1_000_000),
                peers: peers("W7", 1_000_000, slow: 100_000, without: ["oneTBB"]) + [
                    Subject(name: "our W1", commands: ours("W1", 1_000_000).commands)
                ],
                goals: [Goal(peer: "our W1", must: 1.2)], turns: 3),
            Workload(
                name: "W7m", title: "the same, operations made before", unit: "ns", ours: ours("W7m", 1_000_000),
                peers: [Subject(name: "our W1", commands: ours("W1", 1_000_000).commands)], goals: []),
            Workload(
                name: "W8", title: "speed-up on two workers", unit: "×", ours: ours("W8", 64), peers: peers("W8", 64, without: ["oneTBB"]),
                goals: [Goal(peer: "C", must: 0.97)], moreIsBetter: true),
        ]
    }

    private func peer(_ name: String, _ workload: String, _ full: Int) -> Subject {
        subject(name, name == "Foundation" ? "FoundationSubject" : "DispatchSubject", workload, full)
    }

    /// The workloads of operations as programs use them.
    var dressed: [Workload] {
        [
            Workload(
                name: "W9", title: "instances of a subclass", unit: "ns", ours: ours("W9", 300_000),
                peers: [peer("Foundation", "W9", 100_000)], goals: [Goal(peer: "Foundation", must: 1 / 14, best: 1 / 20)], turns: 3),
            Workload(
                name: "W10", title: "with name, priority and completion block", unit: "ns", ours: ours("W10", 300_000),
                peers: [peer("Foundation", "W10", 100_000)], goals: [Goal(peer: "Foundation", must: 1 / 16, best: 1 / 22)], turns: 3),
            Workload(
                name: "W11", title: "two dependencies, two queues", unit: "ns", ours: ours("W11", 100_000),
                peers: [peer("Foundation", "W11", 10_000)], goals: [Goal(peer: "Foundation", must: 1 / 16, best: 1 / 22)], turns: 3),
            Workload(
                name: "W12", title: "four threads add blocks", unit: "ns", ours: ours("W12", 1_000_000),
                peers: [peer("libdispatch", "W12", 1_000_000)], goals: [Goal(peer: "libdispatch", must: 1 / 1.5, best: 1 / 2.5)], turns: 3),
            Workload(
                name: "W12s", title: "four threads add instances of a subclass", unit: "ns", ours: ours("W12s", 1_000_000),
                peers: [peer("libdispatch", "W12", 1_000_000)], goals: [Goal(peer: "libdispatch", must: 1)], turns: 3),
            Workload(
                name: "W13", title: "blocks of 0.12 µs", unit: "ns", ours: ours("W13", 1_000_000),
                peers: [
                    Subject(name: "a loop", commands: ours("W13-loop", 1_000_000).commands), peer("libdispatch", "W13", 1_000_000),
                ],
                goals: [Goal(peer: "a loop", must: 1.3, best: 0.9)], turns: 3),
        ]
    }

    /// The workloads that measure the memory operations leave behind.
    var memory: [Workload] {
        [
            Workload(
                name: "M-finished", title: "memory of a finished operation", unit: "B", ours: ours("M-finished", 1_000_000), peers: [],
                goals: [Goal(must: 256, best: 160)]),
            Workload(
                name: "M-left", title: "memory after it has gone", unit: "B", ours: ours("M-left", 1_000_000), peers: [],
                goals: [Goal(must: 1)]),
            Workload(
                name: "M-lua-waiting", title: "memory of a waiting Lua operation", unit: "B", ours: script("M-waiting", 1_000_000),
                peers: [], goals: []),
            Workload(
                name: "M-lua-finished", title: "memory of a finished Lua operation", unit: "B", ours: script("M-finished", 1_000_000),
                peers: [], goals: []),
            Workload(
                name: "M-lua-left", title: "memory after Lua operations have gone", unit: "B",
                ours: subject("host", "HostSubject", "M-left", 1_000_000), peers: [], goals: [Goal(must: 1)]),
        ]
    }

    private func script(_ workload: String, _ full: Int) -> Subject {
        Subject(name: "opscript", commands: [[programs.opscript, programs.scripts + "/opscript.lua", workload, count(full)]])
    }

    private func luaPeers(_ workload: String, _ full: Int) -> [Subject] {
        [
            Subject(name: "luv", commands: [["lua5.4", programs.scripts + "/luv.lua", workload, count(full)]]),
            subject("C", "CLuaSubject", workload, full),
        ]
    }

    private var loop: Subject {
        var loop = script("L6-loop", 1_000_000)
        loop.name = "loop"
        return loop
    }

    private var ordinaryTable: Subject {
        var table = script("F1-table", 10_000_000)
        table.name = "table"
        return table
    }

    private func onOneProcessor(_ subject: Subject) -> Subject {
        Subject(name: subject.name, commands: subject.commands.map { ["taskset", "-c", "0"] + $0 })
    }

    /// The workloads of scripts.
    var scripts: [Workload] {
        [
            Workload(
                name: "L1", title: "flood made by a script", unit: "ns", ours: script("L1", 100_000),
                peers: luaPeers("L1", 100_000) + [subject("Lua alone", "CLuaSubject", "L1-handles", 100_000)],
                goals: [Goal(peer: "luv", must: 1 / 2, best: 1 / 3)], turns: 3),
            Workload(
                name: "L1h", title: "flood of one function by a host", unit: "ns", ours: subject("host", "HostSubject", "L1h", 100_000),
                peers: luaPeers("L1h", 100_000), goals: [Goal(peer: "luv", must: 1 / 4.5, best: 1 / 6.5)], turns: 3),
            Workload(
                name: "L1f", title: "flood of one function by a script", unit: "ns", ours: script("L1f", 100_000),
                peers: luaPeers("L1h", 100_000), goals: [], turns: 3),
            Workload(
                name: "L5", title: "add one and wait, median", unit: "µs", ours: script("L5", 2000), peers: luaPeers("L5", 2000),
                goals: [Goal(peer: "luv", must: 1 / 4)]),
            Workload(
                name: "L6", title: "map of a function of 1 µs", unit: "ns", ours: script("L6", 1_000_000),
                peers: [loop], goals: [Goal(peer: "loop", must: 1)]),
            Workload(
                name: "L6-one", title: "the same on one processor", unit: "ns", ours: onOneProcessor(script("L6", 1_000_000)),
                peers: [onOneProcessor(loop)], goals: [Goal(peer: "loop", must: 2, best: 1.3)]),
            Workload(
                name: "L6-reduce", title: "reduce with a function of 1 µs", unit: "ns", ours: script("L6-reduce", 1_000_000),
                peers: [loop], goals: [Goal(peer: "loop", must: 1)]),
            Workload(
                name: "L7", title: "map of a function that does nothing", unit: "ns", ours: script("L7", 1_000_000),
                peers: [
                    Subject(name: "imap", commands: [["python3", programs.scripts + "/maps.py", "imap", "L7", count(1_000_000)]]),
                    // Debian's Python, because Debian installs joblib for it.
                    Subject(
                        name: "joblib", commands: [["/usr/bin/python3", programs.scripts + "/maps.py", "joblib", "L7", count(200_000)]]),
                ], goals: []),
            Workload(
                name: "C1", title: "a number through a channel", unit: "ns", ours: script("C1", 1_000_000),
                peers: [Subject(name: "Queue", commands: [["python3", programs.scripts + "/queue_peer.py", "C1", count(200_000)]])],
                goals: [Goal(peer: nil, must: 1000)], turns: 3),
            Workload(
                name: "C1-main", title: "the same to the main state", unit: "ns", ours: script("C1-main", 1_000_000), peers: [],
                goals: [Goal(peer: nil, must: 1000)], turns: 3),
            Workload(
                name: "C1-row", title: "a table of three fields", unit: "ns", ours: script("C1-row", 300_000),
                peers: [Subject(name: "Queue", commands: [["python3", programs.scripts + "/queue_peer.py", "C1-row", count(200_000)]])],
                goals: []),
            Workload(
                name: "C1-one", title: "a channel of one place", unit: "ns", ours: script("C1-one", 100_000), peers: [], goals: []),
            Workload(
                name: "F1", title: "reading a field of a frozen table", unit: "ns", ours: script("F1", 10_000_000), peers: [ordinaryTable],
                goals: []),
            Workload(
                name: "T1", title: "a string of 1 MB there and back", unit: "µs", ours: script("T1", 200), peers: luaPeers("T1", 200),
                goals: [Goal(peer: "luv", must: 1.1, best: 0.85)]),
            Workload(
                name: "T2", title: "a table of 10,000 rows, too", unit: "ms", ours: script("T2", 20), peers: luaPeers("T2", 20),
                goals: [Goal(peer: "C", must: 0.9, best: 0.6)]),
        ]
    }

    /// The workloads of programs.
    var programsOfScripts: [Workload] {
        func ours(_ workload: String, _ full: Int) -> Subject {
            Subject(name: "opscript", commands: [[programs.opscript, programs.scripts + "/programs.lua", workload, count(full)]])
        }
        func peer(_ name: String, _ workload: String, _ full: Int) -> Subject {
            Subject(name: name, commands: [["python3", programs.scripts + "/programs.py", name, workload, count(full)]])
        }
        return [
            Workload(
                name: "R1", title: "programs that do nothing, in a queue", unit: "µs", ours: ours("R1", 1000),
                peers: [peer("xargs", "R1", 1000), peer("pool", "R1", 1000)],
                goals: [Goal(peer: "xargs", must: 1.1), Goal(peer: "pool", must: 0.5)]),
            Workload(
                name: "R2", title: "sha256sum of a file of 256 KB", unit: "µs", ours: ours("R2", 415),
                peers: [peer("xargs", "R2", 415), peer("pool", "R2", 415)], goals: [Goal(peer: "xargs", must: 0.9)]),
            Workload(
                name: "R3", title: "a megabyte of a program's lines", unit: "ms", ours: ours("R3", 2000),
                peers: [peer("lua5.4", "R3", 2000)], goals: [Goal(peer: "lua5.4", must: 2)]),
            Workload(
                name: "R4", title: "one program after the other", unit: "µs", ours: ours("R4", 1000),
                peers: [subject("C", "CSubject", "R4", 1000)], goals: [Goal(peer: "C", must: 1.2)]),
            Workload(
                name: "R5", title: "a file of a tree that is walked through", unit: "µs", ours: ours("R5", 50_000),
                peers: [peer("find", "R5", 50_000)], goals: [Goal(peer: "find", must: 1.2)]),
        ]
    }

    /// The workloads of groups and exclusion in scripts, each beside plain operations.
    var groupsAndExclusion: [Workload] {
        func beside(_ peer: String, _ name: String, _ title: String, _ form: String) -> Workload {
            let full = form.isEmpty ? 100_000 : 30_000
            var plain = script(peer + form, full)
            plain.name = peer
            return Workload(
                name: name + form, title: title + (form.isEmpty ? "" : ", bodies of 10 µs"), unit: "ns", ours: script(name + form, full),
                peers: [plain], goals: [Goal(peer: peer, must: 1.3)], turns: 3)
        }
        return ["", "-work"].flatMap { form in
            [
                beside("plain", "G10", "members of groups of 10", form), beside("plain", "G100", "members of groups of 100", form),
                beside("keyless", "X", "a key that nobody else holds", form), beside("serial", "X1", "one key for all", form),
            ]
        }
    }

    private func host(_ workload: String, _ full: Int) -> Subject { subject("host", "HostSubject", workload, full) }
    private func plainLua(_ workload: String, _ full: Int) -> Subject { subject("C", "CLuaSubject", workload, full) }

    /// The workloads of hosts.
    var embedding: [Workload] {
        [
            Workload(
                name: "H1", title: "call of a host function that reads its arguments", unit: "ns", ours: host("H1", 5_000_000),
                peers: [plainLua("H1", 5_000_000)], goals: [Goal(peer: "C", must: 1.5)], turns: 3),
            Workload(
                name: "H2", title: "call of a host function with typed parameters", unit: "ns", ours: host("H2", 5_000_000),
                peers: [plainLua("H2", 5_000_000)], goals: [Goal(peer: "C", must: 2)], turns: 3),
            Workload(
                name: "H3", title: "making and closing a runtime", unit: "µs", ours: host("H3", 1000), peers: [plainLua("H3", 1000)],
                goals: [Goal(peer: "C", must: 3)], turns: 3),
            Workload(
                name: "H4", title: "10,000 rows as Swift values", unit: "ms", ours: host("H4", 20),
                peers: [subject("JSONDecoder", "FoundationSubject", "H4", 20)], goals: [Goal(peer: "JSONDecoder", must: 2)], turns: 3),
        ]
    }

    /// The workloads of the command.
    var command: [Workload] {
        let plain = programs.scripts + "/plain.lua"
        let counter = [programs.path(of: "bench"), "--instructions"]
        return [
            Workload(
                name: "S", title: "start of the command", unit: "ms",
                ours: Subject(name: "opscript", commands: [[programs.path(of: "bench"), "--start", programs.opscript, "-e", ""]]),
                peers: [Subject(name: "lua5.4", commands: [[programs.path(of: "bench"), "--start", "lua5.4", "-e", ""]])],
                goals: [Goal(peer: "lua5.4", must: 2, best: 1.5)], turns: 7),
            Workload(
                name: "P", title: "plain Lua code, instructions", unit: "M",
                ours: Subject(name: "opscript", commands: [counter + [programs.opscript, plain]]),
                peers: [Subject(name: "lua5.4", commands: [counter + ["lua5.4", plain]])],
                goals: [Goal(peer: "lua5.4", must: 1.01, best: 1)]),
        ]
    }

    var all: [Workload] {
        let all = engine + dressed + memory + scripts + programsOfScripts + groupsAndExclusion + embedding + command
        return all.filter { $0.name != "P" || !programs.missing.contains("valgrind") }.map {
            var workload = $0
            workload.peers.removeAll { programs.missing.contains($0.name) }
            return workload
        }
    }
}
