# The workloads with Celery: `celery_peer.py WORKLOAD COUNT`, with the address of Redis in BENCH_REDIS. `celery --app celery_peer worker`
# starts a worker. See workloads.py.
import os
import sys
import time

import workloads
from celery import Celery

app = Celery("celery_peer", broker=os.environ["BENCH_REDIS"], backend=os.environ["BENCH_REDIS"])
# The default, JSON, cannot express bytes.
app.conf.update(task_serializer="pickle", result_serializer="pickle", accept_content=["pickle"], broker_connection_retry_on_startup=True)

tasks = {name: app.task(getattr(workloads, name), name=name) for name in ("empty", "busy", "sleep")}


@app.task
def length_of(data):
    return len(data)


# Calls one `get` after another, because the `get` of a `ResultSet` looks only twice a second.
def run(name, count):
    for result in [tasks[name].delay() for _ in range(count)]:
        result.get()


def length(data):
    return length_of.delay(data).get()


def warm_up():
    deadline = time.monotonic() + 60
    while len(app.control.ping(timeout=1, limit=workloads.WORKERS) or []) < workloads.WORKERS:
        if time.monotonic() > deadline:
            sys.exit("there are fewer than two workers of Celery")
    run("empty", 100)


if __name__ == "__main__":
    workloads.main(run, length, warm_up)
