import Glibc

// list          prints every case: clause, name, `traps` or `runs`
// run NAME      exits with 0 when the claim holds, 1 when it does not (stdout says why), 3 when the feature does not exist
setvbuf(stdout, nil, _IONBF, 0)
let arguments = CommandLine.arguments
switch arguments.dropFirst().first {
case "list":
    for one in allCases { print(one.clause, one.name, one.traps ? "traps" : "runs", separator: "\t") }
case "run":
    guard arguments.count == 3, let one = allCases.first(where: { $0.name == arguments[2] }) else { exit(2) }
    do {
        try one.body()
    } catch let wrong as Wrong {
        print(wrong.what)
        exit(1)
    } catch is NotAvailable {
        exit(3)
    } catch {
        print(error)
        exit(1)
    }
default:
    print("usage: list | run NAME")
    exit(2)
}
