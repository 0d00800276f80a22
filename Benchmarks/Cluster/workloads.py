# The workloads of the peers of clusters. ours.lua has the same ones.
#
#   PEER WORKLOAD COUNT    prints the figures as JSON
#
#   empty N       operations that do nothing, made at once: operations a second until all results arrive
#   latency N     one after another: milliseconds from making an operation until its result arrives
#   busy N        bodies that take 20 ms of processor time: the share of the speed that two workers can have
#   sleep N       bodies that sleep for 20 ms: the same
#   argument N    N MB of bytes as an argument, and their length as the result: MB a second
import json
import os
import sys
import time

BODY = 0.02  # seconds
WORKERS = 2
REPETITIONS = 3  # of the large argument, each time with other bytes


# The bodies. Dask passes each a number, so that it does not take two of them for the same operation.
def empty(_=None):
    return None


def busy(_=None):
    end = time.thread_time() + BODY
    while time.thread_time() < end:
        pass


def sleep(_=None):
    time.sleep(BODY)


def elapsed(f, *arguments):
    start = time.perf_counter()
    f(*arguments)
    return time.perf_counter() - start


# `run(name, count)` runs a function of this file `count` times on the workers, and returns when it has all results.
# `length(data)` sends bytes to a worker, and returns their length there. `warm_up` waits for both workers.
def main(run, length, warm_up):
    workload, count = sys.argv[1], int(sys.argv[2])
    warm_up()
    if workload == "empty":
        run("empty", count // 10)
        figures = {"rate": count / elapsed(run, "empty", count)}
    elif workload == "latency":
        times = sorted(elapsed(run, "empty", 1) * 1e3 for _ in range(count))
        figures = {"p50": times[count // 2], "p99": times[count * 99 // 100]}
    elif workload in ("busy", "sleep"):
        figures = {"ideal": count * BODY / WORKERS / elapsed(run, workload, count)}
    elif workload == "argument":
        total = 0
        for _ in range(REPETITIONS):
            data = os.urandom(count * 1_000_000)
            start = time.perf_counter()
            arrived = length(data)
            total += time.perf_counter() - start
            assert arrived == len(data)
        figures = {"rate": REPETITIONS * count / total}
    else:
        sys.exit(f"there is no workload {workload}")
    print(json.dumps(figures))
