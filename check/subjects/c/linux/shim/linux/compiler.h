/* What the drivers use and tools/virtio/linux/compiler.h lacks. */
#include_next <linux/compiler.h>
#ifndef data_race
#define data_race(expression) (expression)
#endif
