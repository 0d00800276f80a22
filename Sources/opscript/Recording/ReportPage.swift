/// The page that `--report` writes and `--status` serves.
///
/// The page of a report contains the data of the run. The page of the status server gets them from that server each second. The pages load
/// nothing else: their policy forbids that. `ReportPage.style` and `ReportPage.script` are in files of their own.
enum ReportPage {
    /// Writes the page of a run that has ended.
    static func write(_ data: RunData) {
        writeStart(to: data.file, connect: "'none'")
        data.write()
        writeEnd(to: data.file)
    }

    /// Writes the page of a run that has not ended.
    static func writeLive(to file: OutputFile) {
        writeStart(to: file, connect: "'self'")
        file.append("null")
        writeEnd(to: file)
    }

    private static func writeStart(to file: OutputFile, connect: StaticString) {
        file.append(head)
        file.append(connect)
        file.append(afterPolicy)
        file.append(style)
        file.append(body)
    }

    private static func writeEnd(to file: OutputFile) {
        file.append(afterData)
        file.append(script)
        file.append(end)
    }

    private static let head: StaticString = #"""
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src \#

        """#

    private static let afterPolicy: StaticString = #"""
        ">
        <title>opscript</title>
        <style>

        """#

    private static let body: StaticString = #"""
        </style>
        </head>
        <body>
        <header><h1 id="title">opscript</h1><p id="state" role="status" class="note"></p></header>
        <main>
        <noscript><p>This page needs JavaScript. It loads nothing from elsewhere.</p></noscript>
        <section aria-labelledby="summary-title">
          <h2 id="summary-title">Summary</h2>
          <dl id="summary"></dl>
        </section>
        <section aria-labelledby="timeline-title">
          <h2 id="timeline-title">Timeline</h2>
          <p id="timeline-help" class="note">One row for each thread, and for each slot of a cluster's workers; one colour for each queue; a red edge is a failure. Ctrl and the wheel
          zoom, dragging moves. Keys: + and − zoom, the arrow keys move, 0 shows everything. The table below has the same operations.</p>
          <div id="timeline-frame"><canvas id="timeline" tabindex="0" role="img" aria-labelledby="timeline-title" aria-describedby="timeline-help"></canvas></div>
          <div id="tip" role="tooltip" hidden></div>
          <ul id="legend" aria-label="Queues"></ul>
        </section>
        <section aria-labelledby="path-title">
          <h2 id="path-title">Critical path</h2>
          <p class="note">This chain of operations decided the time of the run: each one started when the one before it had ended.</p>
          <p id="path-summary"></p>
          <ol id="path" tabindex="0" aria-labelledby="path-title"></ol>
        </section>
        <section id="replay-section" aria-labelledby="replay-title">
          <h2 id="replay-title">Other numbers of workers</h2>
          <p class="note">Estimates: the recorded times of the operations, started as their dependencies, the queues' maxima and that many
          workers allow. The script adds them as it did in this run, and a cluster has as many workers.</p>
          <table id="replay">
            <thead><tr><th scope="col">Workers</th><th scope="col">Time</th><th scope="col">Compared with this run</th></tr></thead>
            <tbody></tbody>
          </table>
        </section>
        <section aria-labelledby="operations-title">
          <h2 id="operations-title">Operations</h2>
          <p><label>Search <input id="search" type="search" placeholder="name, line, queue, thread, outcome or error"></label>
          <span id="count" role="status"></span></p>
          <div id="table" role="table" aria-labelledby="operations-title">
            <div role="rowgroup" id="head"></div>
            <div role="rowgroup" id="rows" tabindex="0" aria-label="Rows: the arrow keys select one and show its details"></div>
          </div>
          <h3 id="details-title">Details</h3>
          <pre id="details" role="status" aria-labelledby="details-title">Select an operation.</pre>
        </section>
        </main>
        <script type="application/json" id="data">
        """#

    private static let afterData: StaticString = #"""
        </script>
        <script>

        """#

    private static let end: StaticString = #"""
        </script>
        </body>
        </html>

        """#
}
