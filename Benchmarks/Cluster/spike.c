// Measures NATS JetStream on this machine, without opscript: the rates and delays that a queue over it cannot beat.
//
//   spike URL [DIVISOR]    DIVISOR divides the number of messages, 1 by default
//
// Each stream is a work queue: the server removes a message that is acknowledged. Prints a table in Markdown.
#include <nats/nats.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { small = 1024, large = 512 * 1024, longest_wait = 10000 /* ms */ };

static const char *url;
static int divisor = 1;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void check(natsStatus status, const char *what) {
  if (status == NATS_OK) return;
  fprintf(stderr, "spike: %s: %s\n", what, natsStatus_GetText(status));
  nats_PrintLastErrorStack(stderr);
  exit(1);
}

static void row(const char *what, const char *storage, double value, const char *unit) {
  printf("| %s | %s | %.*f %s |\n", what, storage, value < 10 ? 3 : value < 1000 ? 1 : 0, value, unit);
  fflush(stdout);
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Prints the delays that half, and 99 of 100, of the values do not exceed. The values are in seconds.
static void delays(const char *what, const char *storage, double *values, int count) {
  char name[128];
  qsort(values, (size_t)count, sizeof *values, compare);
  snprintf(name, sizeof name, "%s, p50", what);
  row(name, storage, values[count / 2] * 1e3, "ms");
  snprintf(name, sizeof name, "%s, p99", what);
  row(name, storage, values[count * 99 / 100] * 1e3, "ms");
}

// Without `asap`, a thread of the library sends the messages of each millisecond together.
static natsConnection *connected(bool asap) {
  natsOptions *options = NULL;
  natsConnection *connection = NULL;
  check(natsOptions_Create(&options), "options");
  check(natsOptions_SetURL(options, url), "address");
  check(natsOptions_SetSendAsap(options, asap), "options");
  check(natsConnection_Connect(&connection, options), "connecting");
  natsOptions_Destroy(options);
  return connection;
}

static jsCtx *context(natsConnection *connection, int pending) {
  jsOptions options;
  jsCtx *js = NULL;
  jsOptions_Init(&options);
  options.PublishAsync.MaxPending = pending;
  options.PublishAsync.StallWait = longest_wait;
  check(natsConnection_JetStream(&js, connection, &options), "JetStream");
  return js;
}

static void add_stream(jsCtx *js, jsStorageType storage) {
  const char *subjects[] = { "work" };
  jsStreamConfig config;
  check(jsStreamConfig_Init(&config), "stream");
  config.Name = "WORK";
  config.Subjects = subjects;
  config.SubjectsLen = 1;
  config.Retention = js_WorkQueuePolicy;
  config.Storage = storage;
  check(js_AddStream(NULL, js, &config, NULL, NULL), "adding a stream");
}

static void delete_stream(jsCtx *js) { check(js_DeleteStream(js, "WORK", NULL, NULL), "deleting a stream"); }

// Subscribes. `wait` is the `AckWait` in milliseconds.
static natsSubscription *pull(jsCtx *js, int64_t wait) {
  jsSubOptions options;
  natsSubscription *subscription = NULL;
  jsSubOptions_Init(&options);
  options.Config.AckWait = wait * 1000000;
  options.Config.MaxAckPending = 10000;
  check(js_PullSubscribe(&subscription, js, "work", "workers", NULL, &options, NULL), "subscribing");
  return subscription;
}

static void publish(jsCtx *js, int count, int size) {
  char *data = malloc((size_t)size);
  memset(data, 'x', (size_t)size);
  for (int i = 0; i < count; i++) check(js_PublishAsync(js, "work", data, size, NULL), "publishing");
  jsPubOptions options;
  jsPubOptions_Init(&options);
  options.MaxWait = longest_wait;
  check(js_PublishAsyncComplete(js, &options), "waiting for acknowledgements");
  free(data);
}

// Ends when the server has read the acknowledgements.
static void fetch(natsConnection *connection, natsSubscription *subscription, int count, int batch) {
  for (int done = 0; done < count;) {
    natsMsgList list;
    check(natsSubscription_Fetch(&list, subscription, batch, longest_wait, NULL), "fetching");
    for (int i = 0; i < list.Count; i++) check(natsMsg_Ack(list.Msgs[i], NULL), "acknowledging");
    done += list.Count;
    natsMsgList_Destroy(&list);
  }
  check(natsConnection_Flush(connection), "flushing");
}

// One connection publishes, and then another one fetches.
static void rates(jsStorageType storage, const char *name) {
  natsConnection *producer = connected(false), *consumer = connected(true);
  jsCtx *source = context(producer, 1000), *sink = context(consumer, 1000);
  const int batches[] = { 1, 16, 64 }, count = 40000 / divisor;
  for (int i = 0; i < 3; i++) {
    char what[64];
    add_stream(source, storage);
    natsSubscription *subscription = pull(sink, longest_wait);
    double start = now();
    publish(source, count, small);
    if (i == 0) row("messages of 1 KB published and acknowledged by the server", name, count / (now() - start), "a second");
    const int part = batches[i] == 1 ? count / 4 : count;
    start = now();
    fetch(consumer, subscription, part, batches[i]);
    snprintf(what, sizeof what, "messages of 1 KB fetched in batches of %d, and acknowledged", batches[i]);
    row(what, name, part / (now() - start), "a second");
    natsSubscription_Destroy(subscription);
    delete_stream(source);
  }
  jsCtx_Destroy(source);
  jsCtx_Destroy(sink);
  natsConnection_Destroy(producer);
  natsConnection_Destroy(consumer);
}

// Large messages, and fetching them.
struct flow {
  jsCtx *js;
  natsConnection *connection;
  natsSubscription *subscription;
  int count, batch;
};

static void *consume(void *closure) {
  struct flow *flow = closure;
  fetch(flow->connection, flow->subscription, flow->count, flow->batch);
  return NULL;
}

static void bulk(jsStorageType storage, const char *name) {
  natsConnection *producer = connected(true), *consumer = connected(true);
  jsCtx *source = context(producer, 16), *sink = context(consumer, 16);
  const int count = 800 / divisor;
  const double megabytes = (double)count * large / 1e6;
  add_stream(source, storage);
  struct flow flow = { sink, consumer, pull(sink, longest_wait), count, 8 };
  double start = now();
  publish(source, count, large);
  row("messages of 512 KB published and acknowledged by the server", name, megabytes / (now() - start), "MB/s");
  start = now();
  consume(&flow);
  row("messages of 512 KB fetched in batches of 8, and acknowledged", name, megabytes / (now() - start), "MB/s");
  pthread_t thread;
  start = now();
  pthread_create(&thread, NULL, consume, &flow);
  publish(source, count, large);
  pthread_join(thread, NULL);
  row("messages of 512 KB published and fetched at the same time", name, megabytes / (now() - start), "MB/s");
  natsSubscription_Destroy(flow.subscription);
  delete_stream(source);
  jsCtx_Destroy(source);
  jsCtx_Destroy(sink);
  natsConnection_Destroy(producer);
  natsConnection_Destroy(consumer);
}

// A worker: fetches one message after another, acknowledges it, and answers on the subject that is its text.
static void *answer(void *closure) {
  struct flow *flow = closure;
  for (int i = 0; i < flow->count; i++) {
    natsMsgList list;
    check(natsSubscription_Fetch(&list, flow->subscription, 1, longest_wait, NULL), "fetching");
    char subject[small];
    snprintf(subject, sizeof subject, "%.*s", natsMsg_GetDataLength(list.Msgs[0]), natsMsg_GetData(list.Msgs[0]));
    check(natsMsg_Ack(list.Msgs[0], NULL), "acknowledging");
    check(natsConnection_PublishString(flow->connection, subject, "done"), "answering");
    natsMsgList_Destroy(&list);
  }
  check(natsConnection_Flush(flow->connection), "flushing");
  return NULL;
}

static void round_trip(jsStorageType storage, const char *name, bool asap) {
  natsConnection *producer = connected(asap), *consumer = connected(asap);
  jsCtx *source = context(producer, 1000), *sink = context(consumer, 1000);
  const int count = (asap ? 4000 : 1000) / divisor;
  double *times = calloc((size_t)count, sizeof *times);
  natsSubscription *answers = NULL;
  check(natsConnection_SubscribeSync(&answers, producer, "answers"), "subscribing");
  add_stream(source, storage);
  struct flow flow = { sink, consumer, pull(sink, longest_wait), count, 1 };
  pthread_t thread;
  pthread_create(&thread, NULL, answer, &flow);
  for (int i = 0; i < count; i++) {
    natsMsg *message = NULL;
    double start = now();
    check(js_PublishAsync(source, "work", "answers", 7, NULL), "publishing");
    check(natsSubscription_NextMsg(&message, answers, longest_wait), "waiting for an answer");
    times[i] = now() - start;
    natsMsg_Destroy(message);
  }
  pthread_join(thread, NULL);
  delays(asap ? "published, fetched, acknowledged and answered, with `SendAsap`" : "the same without `SendAsap`", name, times, count);
  free(times);
  natsSubscription_Destroy(answers);
  natsSubscription_Destroy(flow.subscription);
  delete_stream(source);
  jsCtx_Destroy(source);
  jsCtx_Destroy(sink);
  natsConnection_Destroy(producer);
  natsConnection_Destroy(consumer);
}

// A worker disconnects without an acknowledgement of its message, and another one waits for that message.
static void redelivery(jsStorageType storage, const char *name) {
  enum { wait = 250, count = 8 };
  natsConnection *producer = connected(true);
  jsCtx *source = context(producer, 1000);
  double times[count];
  add_stream(source, storage);
  natsSubscription *subscription = pull(source, wait);
  for (int i = 0; i < count; i++) {
    natsMsgList list;
    natsConnection *lost = connected(true);
    jsCtx *js = context(lost, 1000);
    natsSubscription *other = pull(js, wait);
    publish(source, 1, small);
    check(natsSubscription_Fetch(&list, other, 1, longest_wait, NULL), "fetching");
    double start = now();
    natsMsgList_Destroy(&list);
    natsSubscription_Destroy(other);
    jsCtx_Destroy(js);
    natsConnection_Destroy(lost);
    fetch(producer, subscription, 1, 1);
    times[i] = now() - start;
  }
  qsort(times, count, sizeof *times, compare);
  row("delivered again after the worker has gone, with an `AckWait` of 250 ms, p50", name, times[count / 2] * 1e3, "ms");
  natsSubscription_Destroy(subscription);
  delete_stream(source);
  jsCtx_Destroy(source);
  natsConnection_Destroy(producer);
}

static void reply(natsConnection *connection, natsSubscription *subscription, natsMsg *message, void *closure) {
  (void)subscription, (void)closure;
  check(natsConnection_PublishString(connection, natsMsg_GetReply(message), "done"), "answering");
  natsMsg_Destroy(message);
}

static void request_reply(bool asap) {
  natsConnection *asking = connected(asap), *answering = connected(asap);
  const int count = 4000 / divisor;
  double *times = calloc((size_t)count, sizeof *times);
  natsSubscription *subscription = NULL;
  check(natsConnection_Subscribe(&subscription, answering, "ask", reply, NULL), "subscribing");
  check(natsConnection_Flush(answering), "flushing");
  for (int i = 0; i < count; i++) {
    natsMsg *message = NULL;
    double start = now();
    check(natsConnection_RequestString(&message, asking, "ask", "question", longest_wait), "asking");
    times[i] = now() - start;
    natsMsg_Destroy(message);
  }
  delays(asap ? "request and reply without JetStream, with `SendAsap`" : "the same without `SendAsap`", "none", times, count);
  free(times);
  natsSubscription_Destroy(subscription);
  natsConnection_Destroy(asking);
  natsConnection_Destroy(answering);
}

static void bulk_without_stream(void) {
  natsConnection *producer = connected(true), *consumer = connected(true);
  const int count = 1600 / divisor;
  char *data = calloc(1, large);
  natsSubscription *subscription = NULL;
  check(natsConnection_SubscribeSync(&subscription, consumer, "bulk"), "subscribing");
  check(natsSubscription_SetPendingLimits(subscription, -1, -1), "subscribing");
  check(natsConnection_Flush(consumer), "flushing");
  double start = now();
  // At most 16 messages that were not received yet are in memory, here or in the server.
  for (int sent = 0, received = 0; received < count; received++) {
    natsMsg *message = NULL;
    for (; sent < count && sent < received + 16; sent++) check(natsConnection_Publish(producer, "bulk", data, large), "publishing");
    check(natsSubscription_NextMsg(&message, subscription, longest_wait), "receiving");
    natsMsg_Destroy(message);
  }
  row("messages of 512 KB published and received without JetStream", "none", (double)count * large / 1e6 / (now() - start), "MB/s");
  free(data);
  natsSubscription_Destroy(subscription);
  natsConnection_Destroy(producer);
  natsConnection_Destroy(consumer);
}

int main(int argc, char **argv) {
  if (argc < 2 || (argc > 2 && (divisor = atoi(argv[2])) < 1)) {
    fprintf(stderr, "usage: spike URL [DIVISOR]\n");
    return 2;
  }
  url = argv[1];
  const jsStorageType storages[] = { js_FileStorage, js_MemoryStorage };
  const char *names[] = { "file", "memory" };
  printf("| | storage | |\n|---|---|---:|\n");
  request_reply(true);
  request_reply(false);
  bulk_without_stream();
  for (int i = 0; i < 2; i++) {
    rates(storages[i], names[i]);
    round_trip(storages[i], names[i], true);
    round_trip(storages[i], names[i], false);
    redelivery(storages[i], names[i]);
    bulk(storages[i], names[i]);
  }
  nats_Close();
  return 0;
}
