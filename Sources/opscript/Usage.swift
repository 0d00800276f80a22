/// The command's help texts.
enum Usage {
    /// The text that `lua` shows after a wrong option.
    static func short(name: String) -> String {
        """
        usage: \(name) [options] [script [args]]
        Available options are:
        \(options)
          --help    show all options
        """
    }

    static let help = """
        usage: opscript [options] [script [args]]
               opscript attach [PID]
               opscript worker --cluster URL [options]
               opscript workers --cluster URL
        Runs a Lua script whose operations use all processors. Without a script: an interactive session on a terminal, else
        standard input is the script.

        \(options)
          --workers N  run at most N operations and their programs at once (default: the processors this process may use)
          -j N         the same as --workers N
          --no-jobserver
                       share no places with GNU make, neither above nor below
          --jobserver-style=pipe|fifo
                       the form of the jobserver for programs: pipe, the default, or fifo, which make 4.4 and ninja 1.13 know
          --timeout S  stop everything after S seconds, with status 124
          --grace S    when a program is ended, send it the next signal S seconds after the one before (default: 2)
          --fail-fast  stop everything when the first operation fails
          --keep-going
                       go on when an operation fails: the default, and the opposite of an earlier --fail-fast
          --memory-limit SIZE
                       limit the memory of each operation; SIZE is bytes, or has a suffix k, M, G or T
          --store DIR  keep finished work in DIR (default: .opscript beside the script); only operations that ask for it are kept
          --store-limit SIZE
                       limit what is kept; what was used least recently goes (default: 2G)
          --dry-run    show which operations with inputs, outputs or memoize would run, and why, and do not run them; all else
                       runs
          --always-run
                       run operations even if their work is done
          --explain    show on stderr why operations run whose work is kept
          --check      only compile the scripts that follow, and report their syntax errors
          --progress[=auto|always|never]
                       show on stderr how far the operations have come; auto, the default: on a terminal, after a second
          --trace FILE
                       write the run as trace events, for ui.perfetto.dev or chrome://tracing
          --graph FILE
                       write the operations and their dependencies as a graph: .dot, or .svg and .png with Graphviz
          --report FILE
                       write a page about the run: its timeline, what decided its time, and all operations
          --status PORT
                       serve a page about the run, and metrics, to this machine while it goes on; or ADDRESS:PORT
          --log LEVEL  log on stderr what happens: error, warning, info or debug
          --attach     let 'opscript attach' show and change the run; a prompt always does
          --cluster URL
                       run operations on the workers of a cluster; URL is that of a NATS server, such as tls://host:4222
          --key FILE   the secret that the members of the cluster share
          --creds FILE
                       NATS credentials for the cluster
          --nkey FILE  an nkey's seed for the cluster
          --ca FILE    the authorities whose certificates the cluster's server may have
          --cert FILE  a certificate that identifies this program to the cluster's server
          --cert-key FILE
                       the private key of that certificate
          --insecure   do without TLS, credentials and a key on a cluster's server that is not on this machine
          --mark-output
                       begin each line that operations on a cluster print with the name of their worker
          --help       show this help and exit
          --version    show the version and exit

        Exit status: 0; 1 after an error in the script, a failed operation whose error was not read, or operations that could
        never run; 124 after --timeout; 128 + n after signal n; or what os.exit says.

        """

    private static let options = """
          -e stat   execute string 'stat'
          -i        enter interactive mode after executing 'script'
          -l mod    require library 'mod' into global 'mod'
          -l g=mod  require library 'mod' into global 'g'
          -v        show version information
          -E        ignore environment variables
          -W        turn warnings on
          --        stop handling options
          -         stop handling options and execute stdin
        """
}
