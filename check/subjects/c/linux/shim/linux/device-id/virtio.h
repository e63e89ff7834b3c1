/* tools/virtio has no copy of this header. -I of the kernel's root finds the real one. */
#include "include/linux/device-id/virtio.h"
