# The workload L7 with multiprocessing: `python3 imap.py L7 COUNT` prints nanoseconds an input. Its batches have a size that is chosen by hand.
import sys
import time
from multiprocessing import Pool


def identity(x):
    return x


if __name__ == "__main__":
    if sys.argv[1] != "L7":
        sys.exit(3)
    count = int(sys.argv[2])
    with Pool() as pool:
        for repetition in (count // 10, count):
            start = time.perf_counter()
            for x in pool.imap(identity, range(repetition), chunksize=1000):
                pass
            elapsed = time.perf_counter() - start
    print(elapsed / count * 1e9, time.process_time() / count * 1e9)
