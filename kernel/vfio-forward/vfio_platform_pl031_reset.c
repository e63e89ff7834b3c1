// SPDX-License-Identifier: GPL-2.0-only
/*
 * Quiets ARM's real-time clock PL031 when VFIO opens and closes it: the alarm is
 * masked and taken down. Linux 6.1.192 opens no platform device without such a
 * function, and later kernels are the better for it too.
 */

#include <linux/io.h>
#include <linux/module.h>

#include "vfio/platform/vfio_platform_private.h"

#define PL031_IMSC	0x10	/* interrupt mask: 0 masks the alarm */
#define PL031_ICR	0x1c	/* interrupt clear: 1 takes it down */

static int vfio_platform_pl031_reset(struct vfio_platform_device *vdev)
{
	struct vfio_platform_region *registers = &vdev->regions[0];

	if (!registers->ioaddr) {
		registers->ioaddr = ioremap(registers->addr, registers->size);
		if (!registers->ioaddr)
			return -ENOMEM;
	}
	writel(0, registers->ioaddr + PL031_IMSC);
	writel(1, registers->ioaddr + PL031_ICR);
	return 0;
}

module_vfio_reset_handler("arm,pl031", vfio_platform_pl031_reset);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Reset of a PL031 for vfio-platform");
