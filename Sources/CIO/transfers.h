// Internal to this folder: the transfers of libcurl.
#ifndef CIO_TRANSFERS_H
#define CIO_TRANSFERS_H

#include "curl.h"
#include "loop.h"

/// The functions, after `cio_fetch_missing` has returned NULL.
extern curl_library curl;

/// On the loop's thread. Prepare the loop for transfers; begin one; end one. Call the last from no callback of libcurl.
bool transfers_open(cio_loop *loop);
CURLMcode transfers_add(cio_loop *loop, CURL *easy);
void transfers_remove(cio_loop *loop, CURL *easy);

/// A transfer has ended. `fetch` is its CURLOPT_PRIVATE.
void fetch_finish(cio_fetch *fetch, CURLcode code);

#endif
