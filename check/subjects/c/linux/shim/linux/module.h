/* What the drivers use and tools/virtio/linux/module.h lacks. */
#include_next <linux/module.h>
#ifndef MODULE_DESCRIPTION
#define MODULE_DESCRIPTION(text)
#endif
