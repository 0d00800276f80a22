import CFaults
import Glibc
import OpStore
import StoreGraph
import Synchronization

// Runs a graph with a store, in a process that tests kill: StoreHost FOLDER SEED NODES LOG [kill|full|error CHANGE | code CHANGE CODE | user ID]
// Appends a line to LOG for each event, at once. Exits with 2 if something was not recorded, and prints warnings.
let words = CommandLine.arguments
guard words.count >= 5, let seed = UInt64(words[2]), let nodeCount = Int(words[3]) else { exit(64) }
let folder = words[1]
let log = open(words[4], O_WRONLY | O_CREAT | O_APPEND, 0o666)
if words.count == 7, let number = Int(words[6]) {
    let faults = ["kill": FAULT_KILL, "full": FAULT_FULL, "error": FAULT_ERROR]
    if let fault = faults[words[5]] {
        faults_install()
        faults_plan(fault, number)
    } else if words[5] == "user" {
        setuid(uid_t(number))
    }
}
if words.count == 8, words[5] == "code", let number = Int(words[6]), let code = CInt(words[7]) {
    faults_install()
    faults_plan_code(code, number)
}

let isComplete = Atomic<Bool>(true)
@Sendable func append(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = unsafe write(log, bytes, bytes.count)
}
let store = Store(Store.Configuration(directory: folder + "/.opscript") { print($0) })
let made = try StoreGraph(seed: seed, nodeCount: nodeCount).run(in: folder, store: store, threads: 2) { event in
    switch event {
    case .skipped(let index): append("skipped \(index)")
    case .runs(let index, let reason): append("runs \(index) \(reason)")
    case .isDone(let index): append("done \(index)")
    case .isNotRecorded(let index, let reason):
        append("not-recorded \(index) \(reason)")
        isComplete.store(false, ordering: .relaxed)
    }
}
store.close()
for (name, bytes) in made.sorted(by: { $0.key < $1.key }) {
    print(name, bytes.count, unsafe bytes.withUnsafeBytes { unsafe Hasher128.hash($0) })
}
if !isComplete.load(ordering: .relaxed) { exit(2) }
