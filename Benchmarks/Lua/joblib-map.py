# The workload L7 with joblib: `python3 joblib-map.py L7 COUNT` prints nanoseconds an input. Its batches have a size that is chosen by hand.
import os
import sys
import time

try:
    from joblib import Parallel, delayed
except ImportError:
    sys.exit(3)


def identity(x):
    return x


if __name__ == "__main__":
    if sys.argv[1] != "L7":
        sys.exit(3)
    count = int(sys.argv[2])
    with Parallel(n_jobs=os.cpu_count(), batch_size=1000) as parallel:
        for repetition in (count // 10, count):
            start = time.perf_counter()
            for x in parallel(delayed(identity)(x) for x in range(repetition)):
                pass
            elapsed = time.perf_counter() - start
    print(elapsed / count * 1e9, time.process_time() / count * 1e9)
