// The parts of libcurl that this module uses. They are loaded at run time. With these declarations, a build needs no libcurl4-openssl-dev, and is the
// same whether that is installed or not. A test compares the declarations with libcurl's own header.
#ifndef CIO_CURL_H
#define CIO_CURL_H

#include <sys/socket.h>

#ifndef CURLINC_CURL_H  // the mark of libcurl's own header, which only the test includes
typedef void CURL;
typedef void CURLM;
// Enumerations of libcurl, which C compilers represent by these types.
typedef unsigned CURLcode;
typedef int CURLMcode;
typedef unsigned CURLoption;
typedef unsigned CURLMoption;
typedef unsigned CURLINFO;

typedef struct CURLMsg {
    unsigned msg;
    CURL *easy_handle;
    union {
        void *whatever;
        CURLcode result;
    } data;
} CURLMsg;

struct curl_slist {
    char *data;
    struct curl_slist *next;
};

struct curl_sockaddr {
    int family, socktype, protocol;
    unsigned addrlen;
    struct sockaddr addr;
};
#endif

/// Every constant that is used.
#define CURL_CONSTANTS(C) \
    C(CURLOPT_WRITEDATA, 10001) \
    C(CURLOPT_URL, 10002) \
    C(CURLOPT_RANGE, 10007) \
    C(CURLOPT_ERRORBUFFER, 10010) \
    C(CURLOPT_WRITEFUNCTION, 20011) \
    C(CURLOPT_USERAGENT, 10018) \
    C(CURLOPT_HTTPHEADER, 10023) \
    C(CURLOPT_HEADERDATA, 10029) \
    C(CURLOPT_CUSTOMREQUEST, 10036) \
    C(CURLOPT_NOBODY, 44) \
    C(CURLOPT_POST, 47) \
    C(CURLOPT_NETRC, 51) \
    C(CURLOPT_FOLLOWLOCATION, 52) \
    C(CURLOPT_CAINFO, 10065) \
    C(CURLOPT_MAXREDIRS, 68) \
    C(CURLOPT_HEADERFUNCTION, 20079) \
    C(CURLOPT_BUFFERSIZE, 98) \
    C(CURLOPT_NOSIGNAL, 99) \
    C(CURLOPT_PRIVATE, 10103) \
    C(CURLOPT_POSTFIELDSIZE_LARGE, 30120) \
    C(CURLOPT_TIMEOUT_MS, 155) \
    C(CURLOPT_CONNECTTIMEOUT_MS, 156) \
    C(CURLOPT_OPENSOCKETFUNCTION, 20163) \
    C(CURLOPT_COPYPOSTFIELDS, 10165) \
    C(CURLOPT_PROTOCOLS, 181) \
    C(CURLOPT_REDIR_PROTOCOLS, 182) \
    C(CURLOPT_SUPPRESS_CONNECT_HEADERS, 265) \
    C(CURLOPT_PROTOCOLS_STR, 10318) \
    C(CURLOPT_REDIR_PROTOCOLS_STR, 10319) \
    C(CURLOPT_QUICK_EXIT, 322) \
    C(CURLPROTO_HTTP, 1) \
    C(CURLPROTO_HTTPS, 2) \
    C(CURL_NETRC_OPTIONAL, 1) \
    C(CURLMOPT_PIPELINING, 3) \
    C(CURLMOPT_SOCKETFUNCTION, 20001) \
    C(CURLMOPT_SOCKETDATA, 10002) \
    C(CURLMOPT_TIMERFUNCTION, 20004) \
    C(CURLMOPT_TIMERDATA, 10005) \
    C(CURLINFO_EFFECTIVE_URL, 0x100001) \
    C(CURLINFO_RESPONSE_CODE, 0x200002) \
    C(CURLINFO_PRIVATE, 0x100015) \
    C(CURLINFO_RETRY_AFTER, 0x600039) \
    C(CURLE_COULDNT_RESOLVE_PROXY, 5) \
    C(CURLE_COULDNT_RESOLVE_HOST, 6) \
    C(CURLE_COULDNT_CONNECT, 7) \
    C(CURLE_HTTP2, 16) \
    C(CURLE_PARTIAL_FILE, 18) \
    C(CURLE_WRITE_ERROR, 23) \
    C(CURLE_OUT_OF_MEMORY, 27) \
    C(CURLE_OPERATION_TIMEDOUT, 28) \
    C(CURLE_SSL_CONNECT_ERROR, 35) \
    C(CURLE_ABORTED_BY_CALLBACK, 42) \
    C(CURLE_GOT_NOTHING, 52) \
    C(CURLE_SEND_ERROR, 55) \
    C(CURLE_RECV_ERROR, 56) \
    C(CURLE_HTTP2_STREAM, 92) \
    C(CURLMSG_DONE, 1) \
    C(CURL_POLL_IN, 1) \
    C(CURL_POLL_OUT, 2) \
    C(CURL_POLL_REMOVE, 4) \
    C(CURL_CSELECT_IN, 1) \
    C(CURL_CSELECT_OUT, 2) \
    C(CURL_CSELECT_ERR, 4) \
    C(CURL_SOCKET_TIMEOUT, -1) \
    C(CURL_WRITEFUNC_PAUSE, 0x10000001) \
    C(CURLPAUSE_CONT, 0) \
    C(CURL_ERROR_SIZE, 256) \
    C(CURL_GLOBAL_ALL, 3)

#ifndef CURLINC_CURL_H
#define CURL_CONSTANT(name, value) name = value,
enum { CURL_CONSTANTS(CURL_CONSTANT) };
#undef CURL_CONSTANT
#endif

/// Every function that is used: the type of its result, its name and its parameters.
#define CURL_FUNCTIONS(F) \
    F(CURLcode, curl_global_init, long flags) \
    F(CURL *, curl_easy_init, void) \
    F(CURLcode, curl_easy_setopt, CURL *easy, CURLoption option, ...) \
    F(CURLcode, curl_easy_getinfo, CURL *easy, CURLINFO info, ...) \
    F(CURLcode, curl_easy_pause, CURL *easy, int bits) \
    F(const char *, curl_easy_strerror, CURLcode code) \
    F(void, curl_easy_cleanup, CURL *easy) \
    F(struct curl_slist *, curl_slist_append, struct curl_slist *list, const char *text) \
    F(void, curl_slist_free_all, struct curl_slist *list) \
    F(CURLM *, curl_multi_init, void) \
    F(CURLMcode, curl_multi_setopt, CURLM *multi, CURLMoption option, ...) \
    F(CURLMcode, curl_multi_add_handle, CURLM *multi, CURL *easy) \
    F(CURLMcode, curl_multi_remove_handle, CURLM *multi, CURL *easy) \
    F(CURLMcode, curl_multi_socket_action, CURLM *multi, int socket, int events, int *running) \
    F(CURLMsg *, curl_multi_info_read, CURLM *multi, int *left) \
    F(CURLMcode, curl_multi_assign, CURLM *multi, int socket, void *pointer) \
    F(CURLMcode, curl_multi_cleanup, CURLM *multi)

#define CURL_MEMBER(result, name, ...) result (*name)(__VA_ARGS__);
typedef struct curl_library { CURL_FUNCTIONS(CURL_MEMBER) } curl_library;
#undef CURL_MEMBER

#endif
