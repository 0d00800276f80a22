#include "Processes/proxies.h"

#include <stdlib.h>

#include "Objects/Objects.h"

typedef struct proxy {
    uint32_t references;
    bool is_released;  // it is in the list of released proxies
    int kind;
    uint64_t number;
    uint64_t class;               // of an object of the host
    struct proxy *script_class;   // retained
    clua_parcel parcel;           // of an owner of a parcel, which has no number
} proxy;

static struct {
    proxy **proxies;  // by number; NULL for an unknown one
    size_t capacity;
    proxy **released;  // the proxies without references; some may have got new references meanwhile
    size_t released_count, released_capacity;
} known;

enum { OWNER_OF_PARCEL = -1 };

static void retain(void *object) { ((proxy *)object)->references++; }

static void release(void *object) {
    proxy *proxy = object;
    if (--proxy->references > 0) return;
    if (proxy->kind == OWNER_OF_PARCEL) {
        clua_parcel_release(&proxy->parcel);
        free(proxy);
        return;
    }
    // The host may name the object again until it knows of the release.
    if (proxy->is_released) return;
    if (known.released_count == known.released_capacity) {
        size_t capacity = known.released_capacity == 0 ? 16 : 2 * known.released_capacity;
        struct proxy **released = realloc(known.released, capacity * sizeof *released);
        if (released == NULL) return;  // the host keeps the object until the process ends
        known.released = released;
        known.released_capacity = capacity;
    }
    proxy->is_released = true;
    known.released[known.released_count++] = proxy;
}

static void *class_of(void *object, int kind) {
    (void)kind;
    return ((proxy *)object)->script_class;
}

void proxies_open(void) {
    clua_set_object_functions((clua_object_functions){.retain = retain, .release = release, .class_of = class_of});
}

bool proxies_write(channel *channel, parcel_writer *writer, const clua_reference *reference) {
    (void)channel;
    writer_varint(writer, proxy_number(reference->object));
    return true;
}

uint64_t proxy_number(const void *object) { return ((const proxy *)object)->number; }
uint64_t proxy_class(const void *object) { return ((const proxy *)object)->class; }

void proxies_write_releases(parcel_writer *writer) {
    // Freeing a proxy may release its script class, which then joins the list.
    size_t count = 0;
    for (size_t i = 0; i < known.released_count; i++) {
        proxy *proxy = known.released[i];
        proxy->is_released = proxy->references == 0;
        if (!proxy->is_released) continue;
        if (proxy->script_class != NULL) release(proxy->script_class);
        count++;
    }
    writer_varint(writer, count);
    for (size_t i = 0; i < known.released_count; i++) {
        proxy *proxy = known.released[i];
        if (!proxy->is_released) continue;
        writer_varint(writer, proxy->number);
        known.proxies[proxy->number] = NULL;
        free(proxy);
    }
    known.released_count = 0;
}

static bool make_room(uint64_t number) {
    if (number < known.capacity) return true;
    size_t capacity = known.capacity == 0 ? 64 : 2 * known.capacity;
    while (capacity <= number) capacity *= 2;
    proxy **proxies = realloc(known.proxies, capacity * sizeof *proxies);
    if (proxies == NULL) return false;
    for (size_t i = known.capacity; i < capacity; i++) proxies[i] = NULL;
    known.proxies = proxies;
    known.capacity = capacity;
    return true;
}

bool proxies_read(channel *channel, message_reader *reader, clua_reference *reference) {
    uint64_t number = message_count(reader, UINT32_MAX);
    bool is_new = message_byte(reader) != 0;
    if (reader->failed || !make_room(number)) return false;
    proxy *proxy = known.proxies[number];
    if (is_new) {
        proxy = calloc(1, sizeof *proxy);
        if (proxy == NULL) return false;
        proxy->kind = (int)message_varint(reader);
        proxy->number = number;
        proxy->class = message_varint(reader);
        known.proxies[number] = proxy;
        if (message_byte(reader) != 0) {
            clua_reference script_class;
            if (!proxies_read(channel, reader, &script_class)) return false;
            proxy->script_class = script_class.object;
        }
    }
    if (proxy == NULL) return false;
    proxy->references++;
    *reference = (clua_reference){proxy, proxy->kind, false};
    return true;
}

void *proxy_of_parcel(const clua_parcel *parcel, const clua_parcel **held) {
    proxy *proxy = calloc(1, sizeof *proxy);
    if (proxy == NULL) return NULL;
    proxy->references = 1;
    proxy->kind = OWNER_OF_PARCEL;
    proxy->parcel = *parcel;
    *held = &proxy->parcel;
    return proxy;
}
