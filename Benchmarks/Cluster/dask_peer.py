# The workloads with Dask: `dask_peer.py WORKLOAD COUNT`, with the scheduler's file in BENCH_DASK. See workloads.py.
import os

import workloads
from distributed import Client


def main():
    client = Client(scheduler_file=os.environ["BENCH_DASK"], set_as_default=False)

    # One call for all operations is the fastest way to make them.
    def run(name, count):
        client.gather(client.map(getattr(workloads, name), range(count), pure=False))

    # Sends the bytes straight to a worker. The description of an operation would pass through the scheduler.
    def length(data):
        return client.submit(len, client.scatter(data, direct=True, hash=False), pure=False).result()

    def warm_up():
        client.wait_for_workers(workloads.WORKERS, timeout=60)
        run("empty", 100)

    workloads.main(run, length, warm_up)
    client.close()


if __name__ == "__main__":
    main()
