/* exports.h - which functions others see: those of pyhybrid.h in libpyhybrid.so.  Tools (perfstubs_tool.c) have a copy for
 * themselves. */
#ifndef PYH_CAPI_EXPORTS_H
#define PYH_CAPI_EXPORTS_H

#define VISIBLE __attribute__((visibility("default")))
#ifdef PYHYBRID_TOOL
#define EXPORTED
#else
#define EXPORTED VISIBLE
#endif

#endif
