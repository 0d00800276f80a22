import Foundation

/// A chart, as SVG.
struct Plot {
    private static let colours = ["#1b6ca8", "#888888", "#c2571a", "#3c8d40", "#7a4ea3", "#b0892b", "#444444", "#a83254"]

    private var elements: [String] = []
    private let width: Double
    private let height: Double

    private init(title: String, width: Double, height: Double) {
        self.width = width
        self.height = height
        add("text", "x='10' y='22' font-size='15' font-weight='bold'", title)
    }

    private mutating func add(_ name: String, _ attributes: String, _ text: String = "") {
        let escaped = text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
        elements.append("<\(name) \(attributes)>\(escaped)</\(name)>")
    }

    func write(to folder: String, name: String) throws(Failure) {
        let text =
            "<svg xmlns='http://www.w3.org/2000/svg' width='\(width)' height='\(height)' font-family='sans-serif' font-size='12'>\n"
            + "<rect width='100%' height='100%' fill='white'/>\n" + elements.joined(separator: "\n") + "\n</svg>\n"
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data(text.utf8).write(to: URL(fileURLWithPath: folder + "/" + name + ".svg"))
        } catch {
            throw Failure("cannot write \(folder)/\(name).svg: \(error.localizedDescription)")
        }
    }

    /// One bar for each value, with its minimum and maximum.
    static func bars(title: String, unit: String, _ bars: [(name: String, sample: Sample)]) -> Plot {
        var plot = Plot(title: title, width: 640, height: Double(50 + 28 * bars.count))
        let scale = 400 / (bars.map(\.sample.most).max() ?? 1)
        for (index, bar) in bars.enumerated() {
            let y = Double(40 + 28 * index)
            let colour = colours[min(index, 1)]
            plot.add("text", "x='100' y='\(y + 14)' text-anchor='end'", bar.name)
            plot.add("rect", "x='110' y='\(y)' height='18' width='\(bar.sample.median * scale)' fill='\(colour)'")
            plot.add(
                "line",
                "x1='\(110 + bar.sample.least * scale)' x2='\(110 + bar.sample.most * scale)' y1='\(y + 9)' y2='\(y + 9)' stroke='black'")
            plot.add("text", "x='\(118 + bar.sample.most * scale)' y='\(y + 14)'", "\(short(bar.sample.median)) \(unit)")
        }
        return plot
    }

    /// One line for each series, with a logarithmic x axis.
    static func lines(title: String, unit: String, _ series: [(name: String, points: [(x: Double, y: Double)])]) -> Plot {
        var plot = Plot(title: title, width: 640, height: Double(340 + 18 * series.count))
        let points = series.flatMap(\.points)
        let (first, last) = (points.map(\.x).min() ?? 1, points.map(\.x).max() ?? 1)
        let most = points.map(\.y).max() ?? 1
        func x(_ value: Double) -> Double { 70 + 540 * log(value / first) / max(log(last / first), 1e-9) }
        func y(_ value: Double) -> Double { 290 - 240 * value / most }
        for step in 0...4 {
            let value = most * Double(step) / 4
            plot.add("line", "x1='70' x2='610' y1='\(y(value))' y2='\(y(value))' stroke='#dddddd'")
            plot.add("text", "x='64' y='\(y(value) + 4)' text-anchor='end'", "\(short(value)) \(unit)")
        }
        for value in Set(points.map(\.x)).sorted() {
            plot.add("text", "x='\(x(value))' y='308' text-anchor='middle'", value.formatted(.number.notation(.compactName)))
        }
        for (index, line) in series.enumerated() {
            let colour = colours[index % colours.count]
            let path = line.points.map { "\(x($0.x)),\(y($0.y))" }.joined(separator: " ")
            plot.add("polyline", "points='\(path)' fill='none' stroke='\(colour)' stroke-width='2'")
            let legend = Double(330 + 18 * index)
            plot.add("rect", "x='70' y='\(legend - 9)' width='10' height='10' fill='\(colour)'")
            plot.add("text", "x='86' y='\(legend)'", line.name)
        }
        return plot
    }
}

extension Outcome {
    var bars: Plot {
        .bars(
            title: "\(workload.name): \(workload.title)", unit: workload.unit,
            [(workload.ours.name, ours)] + peers.map { ($0.name, $0.sample) })
    }
}
