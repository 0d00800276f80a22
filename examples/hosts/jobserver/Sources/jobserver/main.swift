// A server that runs scripts of its clients: POST one to /run, and get its results as lines of JSON.
//
//     jobserver [PORT]
//     curl --data-binary 'return 6 * 7, { "a", "b" }' http://127.0.0.1:8080/run
import Foundation

let port = CommandLine.arguments.count > 1 ? Int32(CommandLine.arguments[1]) : 8080
guard let port else {
    FileHandle.standardError.write(Data("jobserver: the argument is a port\n".utf8))
    exit(2)
}
let server = Server()
let bound = server.start(port: port)
guard bound != 0 else {
    FileHandle.standardError.write(Data("jobserver: cannot listen at port \(port): \(String(cString: strerror(errno)))\n".utf8))
    exit(1)
}
FileHandle.standardOutput.write(Data("listening at http://127.0.0.1:\(bound)/run\n".utf8))
while true { pause() }
