# The workload L7 in Python: `python3 maps.py imap|joblib L7 COUNT` prints nanoseconds an input, with multiprocessing or joblib. BATCH,
# the size of their batches, was chosen by hand.
import os
import sys
import time

BATCH = 1000


def identity(x):
    return x


def with_imap():
    from multiprocessing import Pool

    pool = Pool()
    return lambda count: pool.imap(identity, range(count), chunksize=BATCH)


def with_joblib():
    try:
        from joblib import Parallel, delayed
    except ImportError:
        sys.exit(3)
    parallel = Parallel(n_jobs=os.cpu_count(), batch_size=BATCH).__enter__()
    return lambda count: parallel(delayed(identity)(x) for x in range(count))


if __name__ == "__main__":
    if sys.argv[2] != "L7":
        sys.exit(3)
    count = int(sys.argv[3])
    results = {"imap": with_imap, "joblib": with_joblib}[sys.argv[1]]()
    for repetition in (count // 10, count):
        start = time.perf_counter()
        for x in results(repetition):
            pass
        elapsed = time.perf_counter() - start
    print(elapsed / count * 1e9, time.process_time() / count * 1e9)
