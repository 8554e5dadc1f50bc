// The compiler's functions for vector instructions. To be included before anything else that includes them.
#pragma once

#if defined(__x86_64__)
#if !defined(__clang__)
// GCC 12 warns of what its own header leaves open on purpose (its bug 105593), wherever the header's functions are inlined.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#endif
