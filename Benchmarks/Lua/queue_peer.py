# The workloads C1 and C1-row with multiprocessing.Queue: `python3 queue_peer.py C1 COUNT` prints nanoseconds a value between two processes.
import sys
import time
from multiprocessing import Process, Queue


def produce(queue, count, value):
    for i in range(count):
        queue.put(i if value is None else value)
    queue.put(None)


if __name__ == "__main__":
    if sys.argv[1] not in ("C1", "C1-row"):
        sys.exit(3)
    count = int(sys.argv[2])
    value = {"id": 1, "name": "row 1", "score": 0.5} if sys.argv[1] == "C1-row" else None
    for repetition in (count // 10, count):
        queue = Queue(1000)
        start = time.perf_counter()
        producer = Process(target=produce, args=(queue, repetition, value))
        producer.start()
        received = 0
        while queue.get() is not None:
            received += 1
        producer.join()
        elapsed = time.perf_counter() - start
        assert received == repetition
    print(elapsed / count * 1e9, time.process_time() / count * 1e9)
