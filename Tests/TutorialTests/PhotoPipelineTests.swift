import Foundation
import OpEngine
import TestSupport
import Testing

/// The tests run one at a time, because the tutorial has only one data source.
@Suite(.serialized) struct PhotoPipelineTests {
    /// An operation has done its work.
    private struct Event: Equatable {
        let kind: String
        let item: Int?
    }

    private func event(of operation: Operation) -> Event {
        switch operation {
        case let download as DownloadOperation: Event(kind: "download", item: number(of: download.target))
        case let filter as FilterOperation: Event(kind: "filter", item: number(of: filter.target))
        case let reload as ReloadOperation: Event(kind: "reload", item: reload.indexPath?.item)
        default: Event(kind: "another", item: nil)
        }
    }

    /// A controller whose main thread is this thread.
    private func controller() -> DependencyViewController {
        MainThread.becomeCurrent()
        return DependencyViewController(engine: Engine(workerCount: 2))
    }

    /// Starts the pipeline and waits until its operations are in their queues.
    private func start(_ controller: DependencyViewController) {
        let added = Gate()
        controller.start(added: { added.open() })
        added.wait()
    }

    private func number(of photo: PhotoData) -> Int? { PhotoDataSource.shared.list.firstIndex { $0 === photo } }

    /// Runs the main queue until everything has ended.
    private func finish(_ controller: DependencyViewController) {
        for operation in controller.uiOperation + controller.backgroundOperations { operation.waitUntilFinished() }
        controller.mainQueue.waitUntilAllOperationsAreFinished()
        #expect(controller.mainQueue.operationCount == 0 && controller.backgroundQueue.operationCount == 0)
    }

    @Test(arguments: [OperationQueue.defaultMaxConcurrentOperationCount, 1]) func itRunsInItsOrder(maximum: Int) throws {
        let running = Locked((now: 0, most: 0))
        Delay.set { _ in
            running.withLock { running in
                running.now += 1
                running.most = max(running.most, running.now)
            }
            sched_yield()
            running.withLock { $0.now -= 1 }
        }
        let controller = controller()
        if maximum == 1 { controller.viewDidLoad() }
        #expect(controller.backgroundQueue.maxConcurrentOperationCount == maximum)
        controller.backgroundQueue.isSuspended = true
        start(controller)
        #expect(controller.backgroundQueue.operationCount == 40 && controller.mainQueue.operationCount == 21)
        controller.backgroundQueue.isSuspended = false
        finish(controller)

        let lines = Printed.takeLines()
        #expect(lines.filter { $0.word == "Start" }.count == 61 && lines.count == 122)
        let done = lines.filter { $0.word == "Done" }.map { event(of: $0.operation) }
        let reload = try #require(done.firstIndex(of: Event(kind: "reload", item: nil)))
        #expect(reload == 20 && done.prefix(20).allSatisfy { $0.kind == "download" })
        for item in 0..<20 {
            let filter = try #require(done.firstIndex(of: Event(kind: "filter", item: item)))
            let reloadItem = try #require(done.firstIndex(of: Event(kind: "reload", item: item)))
            #expect(reload < filter && filter < reloadItem)
        }
        if maximum == 1 { #expect(running.withLock { $0.most } == 1) }
        // The first two reloads are for the button and the finished downloads; one for each item follows.
        #expect(controller.collectionView.reloads.prefix(2) == [nil, nil])
        #expect(Set(controller.collectionView.reloads.dropFirst(2).map { $0?.item }) == Set(0..<20))
        // Each photo is halved and then filtered.
        let photos = PhotoDataSource.shared.list.enumerated().map { ($0.offset, $0.element.data?.bytes) }
        #expect(photos.allSatisfy { $1 == Array(repeating: ~UInt8($0 + 1), count: 4) })
        for operation in controller.uiOperation + controller.backgroundOperations {
            #expect(operation.outcome == .succeeded)
        }
    }

    /// How the operations are cancelled.
    enum Way: CaseIterable {
        case queues, each
    }

    @Test(arguments: Way.allCases) func cancelledInTheMiddleEverythingEnds(way: Way) {
        let (hasBegun, mayEnd) = (Gate(), Gate())
        let passed = Locked(0)
        Delay.set { _ in
            // Five downloads pass. The sixth and all later ones are held.
            let number = passed.withLock { passed in
                passed += 1
                return passed
            }
            if number <= 5 { return }
            if number == 6 { hasBegun.open() }
            mayEnd.wait()
            mayEnd.open()
        }
        let controller = controller()
        controller.backgroundQueue.isSuspended = true
        start(controller)
        controller.backgroundQueue.isSuspended = false
        hasBegun.wait()
        switch way {
        case .queues: controller.cancelQueues()
        case .each: controller.cancelEach()
        }
        #expect(controller.uiOperation.allSatisfy { $0.isCancelled })
        mayEnd.open()
        finish(controller)

        #expect(controller.collectionView.reloads == [nil])
        let words = Dictionary(grouping: Printed.takeLines(), by: \.operation).mapValues { $0.map(\.word) }
        for operation in controller.uiOperation + controller.backgroundOperations.filter({ $0 is FilterOperation }) {
            #expect(operation.outcome == .cancelled && words[operation] == ["Cancel"])
        }
        for operation in controller.backgroundOperations where operation.outcome == .succeeded {
            #expect(words[operation] == ["Start", "Done"])
        }
        let succeeded = controller.backgroundOperations.filter { $0.outcome == .succeeded }
        #expect(succeeded.count >= 4 && succeeded.count < 20)
    }
}
